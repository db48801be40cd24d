// Messages as another host's daemon hears them, without another host.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <deque>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <utility>

#include "base/byte_channel.h"
#include "calls/conversation.h"

namespace pvrdma::calls {

// Returns what was sent, in pieces of a size.
class EchoChannel final : public ByteChannel {
 public:
  explicit EchoChannel(std::size_t piece) : piece_(piece) {}
  Result<void> send(std::span<const std::byte> bytes, Instant) override {
    waiting_.insert(waiting_.end(), bytes.begin(), bytes.end());
    return {};
  }
  Result<std::size_t> receive(std::span<std::byte> into, Instant) override {
    if (waiting_.empty()) return fail(ETIMEDOUT, "nothing came");
    const std::size_t bytes = std::min({piece_, into.size(), waiting_.size()});
    std::copy_n(waiting_.begin(), bytes, into.begin());
    waiting_.erase(waiting_.begin(), waiting_.begin() + static_cast<std::ptrdiff_t>(bytes));
    return bytes;
  }
  void interrupt() override {}

 private:
  const std::size_t piece_;
  std::deque<std::byte> waiting_;
};

// The message that `say` sends.
inline Said heard(const std::function<Result<void>(Conversation& there)>& say) {
  Conversation there(std::make_unique<EchoChannel>(1000), "esx-02");
  EXPECT_TRUE(say(there));
  auto said = there.listen(Instant::now());
  EXPECT_TRUE(said && *said);
  return said && *said ? **std::move(said) : Said{};
}
inline Said heard(const schema::ParsedJson& text) {
  return heard([&](Conversation& there) { return there.say_text(text); });
}

}  // namespace pvrdma::calls
