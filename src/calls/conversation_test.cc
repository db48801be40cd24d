#include "calls/conversation.h"

#include <cerrno>
#include <chrono>
#include <cstdint>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "calls/said_fixture.h"

namespace pvrdma::calls {

struct Parcel {
  std::string to;
  std::optional<std::uint32_t> weight;
};

}  // namespace pvrdma::calls

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<calls::Parcel> = record("Parcel", field("weight", &calls::Parcel::weight),
                                                      field("to", &calls::Parcel::to, kName).required());

}  // namespace pvrdma::schema

namespace pvrdma::calls {
namespace {

// A conversation whose other end has sent `bytes`.
class Heard {
 public:
  explicit Heard(const std::string& bytes, std::size_t piece = 1000) {
    auto echo = std::make_unique<EchoChannel>(piece);
    EXPECT_TRUE(echo->send(std::as_bytes(std::span(bytes)), {}));
    conversation = std::make_unique<Conversation>(std::move(echo), "esx-02");
  }
  std::unique_ptr<Conversation> conversation;
};

// A channel whose other end has ended the connection.
class EndedChannel final : public ByteChannel {
 public:
  Result<void> send(std::span<const std::byte>, Instant) override { return {}; }
  Result<std::size_t> receive(std::span<std::byte>, Instant) override { return std::size_t{0}; }
  void interrupt() override {}
};

// A channel whose other end always has one more byte of a message that never ends.
class TricklingChannel final : public ByteChannel {
 public:
  Result<void> send(std::span<const std::byte>, Instant) override { return {}; }
  Result<std::size_t> receive(std::span<std::byte> into, Instant) override {
    into[0] = std::byte(count_ == 6 ? 0x40 : 0);  // a message of no text and 4 MiB of bytes
    ++count_;
    return std::size_t{1};
  }
  void interrupt() override {}

 private:
  std::size_t count_ = 0;
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
    Conversation conversation(std::make_unique<EchoChannel>(piece), "esx-02");
    conversation.allow_bytes();
    const std::vector<std::byte> state(70'000, std::byte{3});
    ASSERT_TRUE(conversation.say("state", state));
    ASSERT_TRUE(conversation.say("over"));
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

// Older daemons only look whether some members are there.
TEST(ConversationTest, LeavesOutMembersWithoutAValue) {
  const auto text_of = [](const Parcel& parcel) {
    return heard([&](Conversation& there) { return there.say("parcel", parcel); }).text.dump();
  };
  EXPECT_EQ(text_of({"esx-02", 7}), R"({"say":"parcel","to":"esx-02","weight":7})");
  EXPECT_EQ(text_of({"esx-02", std::nullopt}), R"({"say":"parcel","to":"esx-02"})");
  EXPECT_EQ(heard([](Conversation& there) { return there.say("begun"); }).text.dump(), R"({"say":"begun"})");
  EXPECT_EQ(heard([](Conversation& there) { return there.refuse("no room"); }).text.dump(),
            R"({"say":"refused","why":"no room"})");
  EXPECT_EQ(heard([](Conversation& there) { return there.end("no room"); }).text.dump(),
            R"({"say":"over","why":"no room"})");
}

TEST(ConversationTest, SaysWhichMemberIsWrongAndNotWhatItHolds) {
  const auto why = [](const char* text) {
    Parcel parcel;
    const auto read = heard(schema::ParsedJson::parse(text)).read("the parcel", parcel);
    EXPECT_TRUE(read || read.error().code == EPROTO);
    return read ? "" : read.error().message;
  };
  EXPECT_EQ(why(R"({"say":"parcel","to":"esx-02","weight":7,"newer":{}})"), "");
  EXPECT_EQ(why(R"({"say":"parcel","weight":7})"), "the parcel lacks \"to\"");
  EXPECT_EQ(why(R"({"say":"parcel","to":null})"), "the parcel lacks \"to\"");
  EXPECT_EQ(why(R"({"say":"parcel","to":"esx\n02"})"), "the parcel's \"to\" is not a name");
  EXPECT_EQ(why(R"({"say":"parcel","to":[]})"), "the parcel's \"to\" is not a name");
  EXPECT_EQ(why(R"({"say":"parcel","to":"esx-02","weight":-1})"),
            "the parcel's \"weight\" is not a whole number from 0 to 4294967295");
  EXPECT_EQ(why(R"({"say":"parcel","to":"esx-02","weight":4294967296})"),
            "the parcel's \"weight\" is not a whole number from 0 to 4294967295");
}

TEST(ConversationTest, RefusesWhatIsNoMessage) {
  for (const std::string& bytes :
       {framed("[]"), framed("{"), framed(R"({"say": 7})"), framed(R"({"say": null})"),
        framed(R"({"said": "offer"})"), framed(std::string(5000, '[')),
        std::string("\xff\xff\xff\x7f\0\0\0\0", 8), std::string("\x02\0\0\0\xff\xff\xff\xff", 8),
        framed(R"({"say": "state"})", 3)}) {
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
  EXPECT_EQ(refused.error().kind, ErrorKind::kConflict);
  EXPECT_EQ(refused.error().message, "no room");
  const auto other = Heard(framed(R"({"say": "loaded"})")).conversation->expect("qemu", {});
  ASSERT_FALSE(other);
  EXPECT_EQ(other.error().code, EPROTO);
  EXPECT_EQ(Heard("").conversation->expect("qemu", {}).error().code, ETIMEDOUT);
}

TEST(ConversationTest, AnEndedConnectionMayBeMadeAgain) {
  Conversation conversation(std::make_unique<EndedChannel>(), "esx-02");
  const auto said = conversation.expect("qemu", {});
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, EPIPE);
  EXPECT_EQ(said.error().kind, ErrorKind::kUnavailable);
}

TEST(ConversationTest, AMessageThatDoesNotEndIsGivenUp) {
  Conversation there(std::make_unique<TricklingChannel>(), "esx-02");
  there.allow_bytes();
  const auto said =
      there.expect("hello", Instant::now() + std::chrono::milliseconds(50), Conversation::Limit::kAll);
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().code, ETIMEDOUT);
}

TEST(ConversationTest, AReasonThatIsNoneIsNotNeeded) {
  for (const char* text : {R"({"say": "refused"})", R"({"say": "refused", "why": 7})"}) {
    const auto refused = Heard(framed(text)).conversation->expect("qemu", {});
    ASSERT_FALSE(refused);
    EXPECT_EQ(refused.error().code, ECANCELED);
    EXPECT_EQ(refused.error().message, "without a reason");
  }
}

TEST(ConversationTest, AReasonIsFitForALog) {
  const std::string reason = "no\nroom \u001b[31m" + std::string(5000, 'x');
  const schema::ParsedJson text{{"say", "over"}, {"why", reason}};
  const auto over = Heard(framed(text.dump())).conversation->expect("qemu", {});
  ASSERT_FALSE(over);
  EXPECT_EQ(over.error().code, ECANCELED);
  EXPECT_EQ(over.error().kind, ErrorKind::kUnavailable);
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
