#include "calls/conversation.h"

#include <algorithm>
#include <cerrno>
#include <deque>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace pvrdma::calls {
namespace {

// A channel that returns what was sent, in pieces of a chosen size.
class Echo final : public ByteChannel {
 public:
  explicit Echo(std::size_t piece) : piece_(piece) {}
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

// A conversation whose other end has sent `bytes`.
class Heard {
 public:
  explicit Heard(const std::string& bytes, std::size_t piece = 1000) {
    auto echo = std::make_unique<Echo>(piece);
    EXPECT_TRUE(echo->send(std::as_bytes(std::span(bytes)), {}));
    conversation = std::make_unique<Conversation>(std::move(echo), "esx-02");
  }
  std::unique_ptr<Conversation> conversation;
};

std::string framed(const std::string& text, std::size_t bytes = 0) {
  std::string frame;
  for (const std::size_t length : {text.size(), bytes}) {
    for (int shift = 0; shift < 32; shift += 8) frame += static_cast<char>(length >> shift & 0xff);
  }
  return frame + text + std::string(bytes, 'b');
}

TEST(ConversationTest, HearsWhatWasSaidHoweverItComes) {
  for (const std::size_t piece : {1U, 7U, 100'000U}) {
    Conversation conversation(std::make_unique<Echo>(piece), "esx-02");
    conversation.allow_bytes();
    const std::vector<std::byte> state(70'000, std::byte{3});
    ASSERT_TRUE(conversation.say({{"say", "state"}, {"more", 1}}, state));
    ASSERT_TRUE(conversation.say({{"say", "over"}}));
    const auto first = conversation.expect("state", Instant::now());
    ASSERT_TRUE(first) << first.error().message;
    EXPECT_EQ(first->bytes, state);
    const auto second = conversation.listen(Instant::now());
    ASSERT_TRUE(second && *second);
    EXPECT_TRUE((*second)->is("over"));
    const auto nothing = conversation.listen(Instant::now());
    ASSERT_TRUE(nothing);
    EXPECT_FALSE(*nothing);
  }
}

TEST(ConversationTest, RefusesWhatIsNoMessage) {
  for (const std::string& bytes :
       {framed("[]"), framed("{"), framed(R"({"say": 7})"), framed(R"({"said": "offer"})"),
        framed(std::string(5000, '[')), std::string("\xff\xff\xff\x7f\0\0\0\0", 8),
        std::string("\x02\0\0\0\xff\xff\xff\xff", 8), framed(R"({"say": "state"})", 3)}) {
    const auto said = Heard(bytes).conversation->listen(Instant::now());
    ASSERT_FALSE(said) << bytes.substr(0, 40);
    EXPECT_EQ(said.error().code, EPROTO);
  }
  const auto part = Heard(framed(R"({"say": "over"})").substr(0, 12)).conversation->listen(Instant::now());
  ASSERT_TRUE(part);
  EXPECT_FALSE(*part) << "the rest may come";
}

TEST(ConversationTest, TellsARefusalFromASurprise) {
  const auto refused =
      Heard(framed(R"({"say": "refused", "why": "no room"})")).conversation->expect("qemu", {});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ECANCELED);
  EXPECT_EQ(refused.error().message, "no room");
  const auto other = Heard(framed(R"({"say": "loaded"})")).conversation->expect("qemu", {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, EPROTO);
  EXPECT_EQ(Heard("").conversation->expect("qemu", {}).error().code, ETIMEDOUT);
}

TEST(ConversationTest, AReasonIsFitForALog) {
  const std::string reason = "no\nroom \u001b[31m" + std::string(5000, 'x');
  const Json text{{"say", "over"}, {"why", reason}};
  const auto over = Heard(framed(text.dump())).conversation->expect("qemu", {});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ECANCELED);
  EXPECT_TRUE(over.error().message.starts_with("host esx-02 gives up: no?room ?[31mxxx"))
      << over.error().message;
  EXPECT_LT(over.error().message.size(), 600U);
}

TEST(ConversationTest, GivesItsChannelOnlyWhenNothingCame) {
  Heard quiet(framed(R"({"say": "memory"})"));
  ASSERT_TRUE(quiet.conversation->listen(Instant::now()));
  EXPECT_NE(quiet.conversation->give_channel(), nullptr);
  Heard hasty(framed(R"({"say": "memory"})") + "more");
  ASSERT_TRUE(hasty.conversation->listen(Instant::now()));
  EXPECT_EQ(hasty.conversation->give_channel(), nullptr);
}

}  // namespace
}  // namespace pvrdma::calls
