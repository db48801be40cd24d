#include "transport/tcp/call.h"

#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "tls/test_certificates.h"
#include "transport/tcp/raw_peer.h"

namespace pvrdma::transport::tcp {
namespace {

constexpr auto kPatience = std::chrono::seconds(20);

Instant soon() {
  return Instant::now() + kPatience;
}

std::string text_of(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

std::string receive(Call& call, std::size_t bytes) {
  std::vector<std::byte> into(bytes);
  for (std::size_t done = 0; done < bytes;) {
    const auto got = call.receive(std::span(into).subspan(done), soon());
    if (!got || *got == 0) return got ? "end" : got.error().message;
    done += *got;
  }
  return text_of(into);
}

Result<void> send(Call& call, const std::string& text) {
  return call.send(std::as_bytes(std::span(text)), soon());
}

// Host esx1 accepts calls from esx9, whose address it knows.
class CallTest : public testing::Test {
 protected:
  explicit CallTest(bool tls = false) {
    if (tls) certificates_.emplace();
    listen("esx1", true);
  }
  void listen(const std::string& name, bool takes) {
    TcpOptions options{.lanes = 2};
    if (certificates_) options.tls = certificates_->context(name);
    if (takes) {
      options.take_call = [this](std::unique_ptr<Stream> stream, std::string peer) {
        const std::lock_guard lock(mutex_);
        taken_ = std::make_unique<Call>(std::move(stream), std::move(peer));
        came_.notify_all();
      };
    }
    host_.reset();
    host_.emplace(world_, 1, options);
    host_->add_peer({.id = HostId(9), .name = "esx9", .address = address_of(9), .port = kTestPort});
    host_->apply();
  }
  Result<std::unique_ptr<Call>> dial(const std::string& as = "esx9", const std::string& to = "esx1",
                                     const tls::Context* tls = nullptr) {
    return Call::dial(as, address_of(9),
                      {.id = HostId(1), .name = to, .address = address_of(1), .port = kTestPort}, "cubic",
                      tls, soon());
  }
  std::unique_ptr<Call> taken() {
    std::unique_lock lock(mutex_);
    came_.wait_for(lock, kPatience, [this] { return taken_ != nullptr; });
    return std::move(taken_);
  }

  World world_;
  std::optional<tls::TestCertificates> certificates_;
  std::optional<Host> host_;
  std::mutex mutex_;
  std::condition_variable came_;
  std::unique_ptr<Call> taken_;
};

class TlsCallTest : public CallTest {
 protected:
  TlsCallTest() : CallTest(true) {}
};

void exchange(Call& here, Call& there) {
  EXPECT_EQ(there.peer(), "esx9");
  ASSERT_TRUE(send(here, "who is there"));
  EXPECT_EQ(receive(there, 12), "who is there");
  const std::string much(3'000'000, 'x');
  std::thread sender([&] { EXPECT_TRUE(send(there, much)); });
  EXPECT_EQ(receive(here, much.size()), much);
  sender.join();
  std::array<std::byte, 1> byte{};
  const auto nothing = here.receive(byte, Instant::now());
  ASSERT_FALSE(nothing);
  EXPECT_EQ(nothing.error().code, ETIMEDOUT);
  here.interrupt();
  const std::string end = receive(there, 1);
  EXPECT_TRUE(end == "end" || end.find("esx9") != std::string::npos) << end;
}

TEST_F(CallTest, CarriesBytesBothWays) {
  auto here = dial();
  ASSERT_TRUE(here) << here.error().message;
  const auto there = taken();
  ASSERT_NE(there, nullptr);
  exchange(**here, *there);
}

TEST_F(TlsCallTest, CarriesBytesBothWays) {
  const auto tls = tls::Context::mutual(certificates_->issue("esx9")).value();
  auto here = dial("esx9", "esx1", tls.get());
  ASSERT_TRUE(here) << here.error().message;
  const auto there = taken();
  ASSERT_NE(there, nullptr);
  exchange(**here, *there);
}

TEST_F(CallTest, SaysWhyItIsNotTaken) {
  auto refused = dial("esx8");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("host esx1 at "), std::string::npos) << refused.error().message;
  EXPECT_NE(refused.error().message.find("esx8"), std::string::npos) << refused.error().message;
  refused = dial("esx9", "esx7");
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("the host there is esx1"), std::string::npos)
      << refused.error().message;
  listen("esx1", false);
  refused = dial();
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("accepts no calls"), std::string::npos) << refused.error().message;
  host_.reset();
  refused = dial();
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ECONNREFUSED) << refused.error().message;
}

TEST_F(CallTest, ACallThatBreaksMayBeMadeAgain) {
  const auto here = dial();
  ASSERT_TRUE(here) << here.error().message;
  auto there = taken();
  ASSERT_NE(there, nullptr);
  there.reset();
  const auto sent = send(**here, std::string(16'000'000, 'x'));
  ASSERT_FALSE(sent);
  EXPECT_EQ(sent.error().code, EPIPE) << sent.error().message;
  EXPECT_EQ(sent.error().kind, ErrorKind::kUnavailable);
}

TEST_F(TlsCallTest, ComparesNames) {
  const auto liar = tls::Context::mutual(certificates_->issue("esx8")).value();
  const auto refused = dial("esx9", "esx1", liar.get());
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("esx8"), std::string::npos) << refused.error().message;
  const auto tls = tls::Context::mutual(certificates_->issue("esx9")).value();
  const auto elsewhere = dial("esx9", "esx7", tls.get());
  ASSERT_FALSE(elsewhere);
  EXPECT_NE(elsewhere.error().message.find("the certificate there is for esx1"), std::string::npos)
      << elsewhere.error().message;
}

TEST_F(TlsCallTest, AHostThatEndsTheConnectionWithoutAWordMayBeTriedAgain) {
  RawListener turns_away(address_of(2));
  std::thread there([&] { turns_away.accept(); });
  const auto tls = tls::Context::mutual(certificates_->issue("esx9")).value();
  const auto cut = Call::dial("esx9", address_of(9),
                              {.id = HostId(2), .name = "esx2", .address = address_of(2), .port = kTestPort},
                              "cubic", tls.get(), soon());
  there.join();
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().code, EAGAIN) << cut.error().message;
  EXPECT_NE(cut.error().message.find("too many connections"), std::string::npos) << cut.error().message;
}

}  // namespace
}  // namespace pvrdma::transport::tcp
