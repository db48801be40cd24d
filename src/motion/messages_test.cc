#include "motion/messages.h"

#include <cerrno>
#include <chrono>
#include <gtest/gtest.h>
#include <string>

#include "calls/said_fixture.h"

namespace pvrdma::motion {
namespace {

using calls::heard;
using Json = schema::ParsedJson;

template <schema::Described T>
bool is_read(const Json& text, T& message) {
  return heard(text).read("it", message).has_value();
}

TEST(PciMessageTest, TravelsAsItIs) {
  PciMessage sent;
  for (std::size_t i = 0; i < sent.image.config.size(); ++i)
    sent.image.config[i] = static_cast<std::uint8_t>(i);
  for (const bool has_table : {false, true}) {
    if (has_table) sent.image.msix_table.emplace()[47] = 9;
    const auto said = heard([&](calls::Conversation& there) { return there.say("pci", sent); });
    EXPECT_EQ(said.text.at("pci").contains("msix_table"), has_table);
    PciMessage received;
    ASSERT_TRUE(said.read("it", received));
    EXPECT_EQ(received.image, sent.image);
  }
}

TEST(PciMessageTest, WhatIsNoPciStateIsRefused) {
  const std::string config(512, '0');
  for (const Json& bad :
       {Json::array(), Json::object(), Json{{"config", "00"}}, Json{{"config", 5}},
        Json{{"config", std::string(512, 'g')}}, Json{{"config", config + "0"}},
        Json{{"config", config}, {"msix_table", ""}}, Json{{"config", config}, {"msix_table", 5}}}) {
    PciMessage message;
    EXPECT_FALSE(is_read({{"say", "pci"}, {"pci", bad}}, message)) << bad.dump().substr(0, 60);
  }
}

TEST(SmallMessagesTest, AreWrittenAsOlderDaemonsReadThem) {
  const auto text_of = [](const char* word, const auto& message) {
    return heard([&](calls::Conversation& there) { return there.say(word, message); }).text.dump();
  };
  EXPECT_EQ(text_of("accepted", Acceptance{.takes_draft = true}), R"({"draft":true,"say":"accepted"})");
  EXPECT_EQ(text_of("accepted", Acceptance{}), R"({"say":"accepted"})");
  EXPECT_EQ(text_of(kMemoryWord, MemoryMessage{"m1"}), R"({"motion":"m1","say":"memory"})");
  EXPECT_EQ(text_of("state", StateMessage{false}), R"({"paused":false,"say":"state"})");
  EXPECT_EQ(text_of("pages", PagesMessage{~std::uint64_t{0}}),
            R"({"at":18446744073709551615,"say":"pages"})");
}

TEST(SmallMessagesTest, AreRefusedWithAMemberOfAnotherType) {
  Acceptance acceptance;
  EXPECT_TRUE(is_read({{"say", "accepted"}}, acceptance));
  EXPECT_FALSE(acceptance.takes_draft);
  EXPECT_FALSE(is_read({{"say", "accepted"}, {"draft", "yes"}}, acceptance));
  StateMessage state;
  EXPECT_TRUE(is_read({{"say", "state"}}, state));
  EXPECT_FALSE(state.is_paused);
  EXPECT_FALSE(is_read({{"say", "state"}, {"paused", 1}}, state));
  PagesMessage pages;
  MemoryMessage memory;
  EXPECT_FALSE(is_read({{"say", "pages"}}, pages));
  EXPECT_FALSE(is_read({{"say", "memory"}}, memory));
  for (const Json& bad : {Json(-1), Json(1.5), Json("0"), Json::object()})
    EXPECT_FALSE(is_read({{"say", "pages"}, {"at", bad}}, pages)) << bad.dump();
  for (const Json& bad : {Json(1), Json::array()})
    EXPECT_FALSE(is_read({{"say", "memory"}, {"motion", bad}}, memory)) << bad.dump();
}

Json offer_text() {
  return {{"say", "offer"},   {"format", kMotionFormat}, {"motion", "m1"},    {"vm", "VM-01"},
          {"from", "esx-01"}, {"to", "esx-02"},          {"patience_s", 600u}};
}
Result<Offer> offer_of(const Json& text) {
  return read_offer(heard(text));
}

TEST(OfferTest, IsWrittenAsOlderDaemonsReadIt) {
  Offer offer{.motion = {"m1", "VM-01", "esx-01", "esx-02"}, .patience = std::chrono::seconds(600)};
  const auto said = [&offer] {
    return heard([&](calls::Conversation& there) { return say_offer(there, offer); }).text;
  };
  Json expected = offer_text();
  expected["format"] = kPlainMotionFormat;
  EXPECT_EQ(said().dump(), expected.dump());
  expected["question"] = offer.is_question = true;
  EXPECT_EQ(said().dump(), expected.dump());
  expected["format"] = kMotionFormat;
  expected["paused"] = offer.is_paused = true;
  EXPECT_EQ(said().dump(), expected.dump());
  offer.leader = Leader::kLibvirt;
  expected["leader"] = "libvirt";
  EXPECT_EQ(said().dump(), expected.dump());
  const auto back = read_offer(heard(expected));
  ASSERT_TRUE(back);
  EXPECT_TRUE(back->is_question && back->is_paused);
  EXPECT_EQ(back->leader, Leader::kLibvirt);
}

TEST(OfferTest, IsReadAsItWasWritten) {
  const auto offer = offer_of(offer_text());
  ASSERT_TRUE(offer) << offer.error().message;
  EXPECT_EQ(offer->motion.vm, "VM-01");
  EXPECT_EQ(offer->patience, std::chrono::seconds(600));
  EXPECT_FALSE(offer->is_question || offer->is_paused);
  EXPECT_EQ(offer->leader, Leader::kDaemons);
  Json endless = offer_text();
  endless["patience_s"] = ~std::uint64_t{0};
  EXPECT_EQ(offer_of(endless)->patience, std::chrono::hours(24));
}

TEST(OfferTest, OfALedOrPausedVmIsNotForOlderDaemons) {
  Json text = offer_text();
  text["leader"] = "libvirt";
  text["paused"] = true;
  EXPECT_EQ(offer_of(text)->leader, Leader::kLibvirt);
  EXPECT_TRUE(offer_of(text)->is_paused);
  for (const Json& unknown : {Json(7), Json("somebody")}) {
    text["leader"] = unknown;
    EXPECT_EQ(offer_of(text).error().code, EPERM);
  }
  text["format"] = kPlainMotionFormat;
  EXPECT_EQ(offer_of(text)->leader, Leader::kDaemons) << "they know no such member";
  EXPECT_FALSE(offer_of(text)->is_paused);
}

TEST(OfferTest, WhatIsNoneIsRefused) {
  for (const char* member : {"format", "motion", "vm", "from", "to", "patience_s"}) {
    Json text = offer_text();
    text.erase(member);
    EXPECT_EQ(offer_of(text).error().code, EPROTO) << member;
    for (const Json& bad : {Json::array(), Json(-1), Json(1.5), Json("a/b"), Json(true)}) {
      text[member] = bad;
      EXPECT_EQ(offer_of(text).error().code, EPROTO) << member << bad.dump();
    }
  }
  for (const char* member : {"question", "paused"}) {
    Json text = offer_text();
    text[member] = 1;
    EXPECT_EQ(offer_of(text).error().code, EPROTO) << member;
  }
  EXPECT_FALSE(offer_of({{"say", "memory"}}));
  Json newer = offer_text();
  newer["format"] = 4;
  const auto refused = offer_of(newer);
  ASSERT_FALSE(refused);
  EXPECT_NE(refused.error().message.find("formats 2 and 3, the other one's in format 4"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::motion
