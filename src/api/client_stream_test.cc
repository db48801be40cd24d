// The time limit for a client to take an answer: for a whole answer, or for each piece of a stream.
#include "api/client_stream.h"

#include <algorithm>
#include <cstring>
#include <gtest/gtest.h>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <thread>

#include "api/dispatcher.h"

namespace pvrdma::api {
namespace {

using Clock = std::chrono::steady_clock;

constexpr StreamLimits kLimits{.silence = std::chrono::minutes(5),
                               .read = std::chrono::minutes(5),
                               .write = std::chrono::seconds(1),
                               .read_bytes_max = 4096};

void pass_the_write_limit() {
  std::this_thread::sleep_until(Clock::now() + kLimits.write + std::chrono::milliseconds(100));
}

// A client that has sent `request` and makes the server wait before each write.
class HesitantClient final : public ClientStream {
 public:
  explicit HesitantClient(std::string_view request = {}) : ClientStream(kLimits, closing_), input_(request) {
    int ends[2];
    EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
    ours_ = Fd(ends[0]);
    theirs_ = Fd(ends[1]);
  }
  socket_t socket() const override { return ours_.get(); }
  bool takes(std::string_view text) {
    return write(text.data(), text.size()) == static_cast<ssize_t>(text.size());
  }
  const std::string& taken() const { return taken_; }

 private:
  tls::Transfer read_some(std::span<std::byte> into) override {
    const std::size_t size = std::min(into.size(), input_.size());
    if (size == 0) return {tls::Io::kClosed, 0};
    std::memcpy(into.data(), input_.data(), size);
    input_.remove_prefix(size);
    return {tls::Io::kDone, size};
  }
  tls::Transfer write_some(std::span<const std::byte> from) override {
    hesitates_ = !hesitates_;
    if (hesitates_) return {tls::Io::kWantWrite, 0};
    taken_.append(reinterpret_cast<const char*>(from.data()), from.size());
    return {tls::Io::kDone, from.size()};
  }
  bool holds_input() const override { return !input_.empty(); }

  const std::atomic<bool> closing_ = false;
  std::string_view input_;
  Fd ours_, theirs_;  // always writable
  std::string taken_;
  bool hesitates_ = false;
};

TEST(ClientStreamTest, HasOneLimitForTheWholeAnswer) {
  HesitantClient client;
  EXPECT_TRUE(client.takes("head"));
  pass_the_write_limit();
  EXPECT_FALSE(client.takes("body"));
  EXPECT_EQ(client.taken(), "head");
}

// A stream whose second piece comes after the time limit for an answer.
class LateStream final : public ByteStream {
 public:
  bool read(std::string& out) override {
    if (pieces_ == 1) pass_the_write_limit();
    out += "piece";
    return ++pieces_ != 3;
  }

 private:
  int pieces_ = 0;
};

TEST(ClientStreamTest, HasALimitForEachPieceOfAStream) {
  Router router(Router::Membership::kAlone);
  router.add({.method = "GET", .path = "/stream", .handler = [](const Call&) {
                return Reply{.type = "text/plain", .stream = std::make_shared<LateStream>()};
              }});
  Dispatcher dispatcher(router, is_no_dns_name);
  HesitantClient client("GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n");
  dispatcher.answer_one(client, "uid 0");
  EXPECT_TRUE(client.taken().ends_with("5\r\npiece\r\n5\r\npiece\r\n5\r\npiece\r\n0\r\n\r\n"))
      << client.taken();
}

}  // namespace
}  // namespace pvrdma::api
