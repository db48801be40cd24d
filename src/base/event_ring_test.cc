#include "base/event_ring.h"

#include <fmt/core.h>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace pvrdma::events {
namespace {

constexpr std::size_t kAll = EventRing::kSlots;

class EventRingTest : public testing::Test {
 protected:
  void append(Type type, std::string_view vm, std::string_view text = "x") {
    ring_->append(log::Level::kInfo, {type, Kind::kVm, vm}, text);
  }
  std::size_t held(std::string_view vm) const {
    std::size_t count = 0;
    for (const Event& event : ring_->page(0, kAll).events) count += event.object == vm ? 1U : 0U;
    return count;
  }

  const std::unique_ptr<EventRing> ring_ = std::make_unique<EventRing>();
};

TEST_F(EventRingTest, AnEventComesBackAsItWasTold) {
  ring_->append(log::Level::kWarn, {Type::kEdit, Kind::kDvs, "DSwitch", "uid 0"}, "dvs DSwitch: removed");
  const Page page = ring_->page(0, kAll);
  ASSERT_EQ(page.events.size(), 1U);
  const Event& event = page.events[0];
  EXPECT_EQ(event.sequence, 1U);
  EXPECT_GT(event.at_ms, 1'600'000'000'000U);
  EXPECT_EQ(event.level, log::Level::kWarn);
  EXPECT_EQ(event.type, Type::kEdit);
  EXPECT_EQ(event.kind, Kind::kDvs);
  EXPECT_EQ(event.object, "DSwitch");
  EXPECT_EQ(event.initiator, "uid 0");
  EXPECT_EQ(event.text, "dvs DSwitch: removed");
  EXPECT_EQ(page.last, 1U);
  EXPECT_EQ(page.lost, 0U);
}

TEST_F(EventRingTest, WithoutAnEventThePageIsEmpty) {
  const Page page = ring_->page(0, kAll);
  EXPECT_TRUE(page.events.empty());
  EXPECT_EQ(page.last, 0U);
  EXPECT_EQ(page.lost, 0U);
}

TEST_F(EventRingTest, PagesFollowEachOther) {
  for (int i = 1; i <= 5; ++i) append(Type::kMotion, fmt::format("VM-{}", i));
  std::uint64_t after = 0;
  for (const std::size_t size : {2U, 2U, 1U, 0U}) {
    const Page page = ring_->page(after, 2);
    ASSERT_EQ(page.events.size(), size);
    EXPECT_EQ(page.lost, 0U);
    EXPECT_EQ(page.last, after + size);
    for (const Event& event : page.events) EXPECT_EQ(event.sequence, ++after);
  }
}

TEST_F(EventRingTest, WithoutANumberTheNewestCome) {
  append(Type::kLink, "VM-01");
  for (std::size_t i = 0; i < 2 * EventRing::kOfOneObject; ++i) append(Type::kPower, "VM-02");
  append(Type::kLink, "VM-01");
  const Page two = ring_->page(std::nullopt, 2);
  ASSERT_EQ(two.events.size(), 2U);
  EXPECT_EQ(two.events[0].sequence, 2 * EventRing::kOfOneObject + 1);
  EXPECT_EQ(two.events[1].sequence, 2 * EventRing::kOfOneObject + 2);
  EXPECT_EQ(two.last, 2 * EventRing::kOfOneObject + 2);
  EXPECT_EQ(two.lost, 0U) << "those before the page are not missing from it";
  const Page all = ring_->page(std::nullopt, kAll);
  EXPECT_EQ(all.events.size(), EventRing::kOfOneObject + 2);
  EXPECT_EQ(all.lost, EventRing::kOfOneObject);
}

TEST_F(EventRingTest, ANumberOfAnEarlierProcessMeansTheBeginning) {
  append(Type::kLink, "VM-01");
  const Page page = ring_->page(1000, kAll);
  ASSERT_EQ(page.events.size(), 1U);
  EXPECT_EQ(page.last, 1U);
  EXPECT_EQ(page.lost, 0U);
}

TEST_F(EventRingTest, OneObjectKeepsOnlyItsNewestAndDisplacesNoOther) {
  append(Type::kPower, "VM-02");
  for (std::size_t i = 0; i < 10'000; ++i) append(Type::kPower, "VM-01");
  EXPECT_EQ(held("VM-01"), EventRing::kOfOneObject);
  EXPECT_EQ(held("VM-02"), 1U);
  const Page page = ring_->page(1, kAll);
  EXPECT_EQ(page.events.front().sequence, 10'001 - EventRing::kOfOneObject + 1);
  EXPECT_EQ(page.last, 10'001U);
  EXPECT_EQ(page.lost, 10'000 - EventRing::kOfOneObject) << "the reader learns what it missed";
}

TEST_F(EventRingTest, AllGuestsTogetherDisplaceNoEventOfAnotherSource) {
  append(Type::kStore, "the store");
  append(Type::kEdit, "VM-7");
  for (int vm = 0; vm < 1000; ++vm) {
    append(Type::kPower, fmt::format("VM-{}", vm));
    append(Type::kAdapter, fmt::format("VM-{}", vm));
  }
  const Page page = ring_->page(0, kAll);
  EXPECT_EQ(page.events.size(), EventRing::kOfGuests + 2);
  EXPECT_EQ(page.events[0].object, "the store");
  EXPECT_EQ(page.events[1].type, Type::kEdit);
}

TEST_F(EventRingTest, EditsMotionsAndFaultsDisplaceNoEventOfAnotherSource) {
  const std::vector others{Type::kCertificate, Type::kHost,  Type::kLink,
                           Type::kPath,        Type::kPower, Type::kStore};
  for (const Type type : others) append(type, "another");
  for (int vm = 0; vm < 1000; ++vm) {
    for (const Type type : {Type::kEdit, Type::kFault, Type::kMotion}) append(type, fmt::format("VM-{}", vm));
  }
  EXPECT_EQ(held("another"), others.size());
  EXPECT_EQ(ring_->page(0, kAll).events.size(), EventRing::kOfOperators + others.size());
}

TEST_F(EventRingTest, AFewNoisyObjectsTogetherDisplaceNoOther) {
  append(Type::kPower, "quiet");
  for (int i = 0; i < 100; ++i) {
    for (int vm = 0; vm < 40; ++vm) append(Type::kPower, fmt::format("noisy-{}", vm));
  }
  EXPECT_EQ(held("quiet"), 1U);
  for (int i = 0; i < 5; ++i) append(Type::kPower, "late");
  EXPECT_EQ(held("late"), 5U);
  EXPECT_EQ(held("quiet"), 1U);
  EXPECT_EQ(ring_->page(0, kAll).events.size(), EventRing::kOfGuests);
}

TEST_F(EventRingTest, WithoutRoomTheOldestGoes) {
  constexpr std::size_t kRoom = EventRing::kOfOperators;
  for (std::size_t i = 0; i <= kRoom; ++i) append(Type::kMotion, fmt::format("VM-{}", i));
  const Page page = ring_->page(0, kAll);
  ASSERT_EQ(page.events.size(), kRoom);
  EXPECT_EQ(page.events.front().object, "VM-1");
  EXPECT_EQ(page.lost, 1U);
}

TEST_F(EventRingTest, TextsOfStrangersAreHarmlessAndBounded) {
  append(Type::kAdapter, "VM\n01\x1b[2J", "says \x1b]0;gone\x07" + std::string(10'000, 'a'));
  const Event event = ring_->page(0, kAll).events.at(0);
  EXPECT_EQ(event.object, "VM\\u000a01\\u001b[2J");
  EXPECT_EQ(event.text.find('\x1b'), std::string::npos);
  EXPECT_LT(event.text.size(), EventRing::kTextBytes + 32);
  append(Type::kAdapter, std::string(10'000, 'n'));
  EXPECT_EQ(ring_->page(1, kAll).events.at(0).object.size(), EventRing::kNameBytes);
}

TEST_F(EventRingTest, ACutTextEndsWithAnEllipsisAndWithoutHalfACharacter) {
  const std::string longest(EventRing::kTextBytes, 'a');
  append(Type::kMotion, "VM-01", longest);
  append(Type::kMotion, "VM-01", longest + "a");
  for (const std::string begin : {"", "a", "aa", "aaa"}) {
    std::string text = begin;
    while (text.size() <= EventRing::kTextBytes) text += "𝄞";
    append(Type::kMotion, "VM-01", text);
  }
  const Page page = ring_->page(0, kAll);
  EXPECT_EQ(page.events.at(0).text, longest);
  EXPECT_EQ(page.events.at(1).text, longest.substr(3) + "…");
  for (std::size_t i = 2; i < page.events.size(); ++i) {
    const std::string& text = page.events[i].text;
    EXPECT_EQ(text.find("\\x"), std::string::npos) << text;
    EXPECT_TRUE(text.ends_with("𝄞…"));
    EXPECT_GT(text.size(), EventRing::kTextBytes - 7);
    EXPECT_LE(text.size(), EventRing::kTextBytes);
  }
}

TEST_F(EventRingTest, ReadersAndWritersMayMeet) {
  std::thread writer([this] {
    for (int i = 0; i < 20'000; ++i) append(Type::kMotion, i % 2 == 0 ? "VM-01" : "VM-02", "moves");
  });
  std::uint64_t after = 0;
  while (after < 20'000) {
    const Page page = ring_->page(after, 7);
    for (const Event& event : page.events) {
      EXPECT_GT(event.sequence, after);
      EXPECT_EQ(event.text, "moves");
      EXPECT_EQ(event.object, event.sequence % 2 == 1 ? "VM-01" : "VM-02");
    }
    EXPECT_EQ(page.last - after, page.events.size() + page.lost);
    after = page.last;
  }
  writer.join();
  const Page held = ring_->page(0, kAll);
  ASSERT_EQ(held.events.size(), 2 * EventRing::kOfOneObject) << "both objects alternate";
  EXPECT_EQ(held.lost, 20'000 - held.events.size());
  std::uint64_t expected = 20'000 - held.events.size();
  for (const Event& event : held.events) EXPECT_EQ(event.sequence, ++expected);
  EXPECT_EQ(ring_->page(20'000 - held.events.size(), kAll).lost, 0U);
}

TEST(Tell, PutsTheSentenceIntoTheRing) {
  const std::uint64_t before = newest().last();
  tell(log::Level::kWarn, {Type::kLink, Kind::kVm, "VM-01"}, "adapter {}: link {}", "VM-01", "down");
  const Page page = newest().page(before, kAll);
  ASSERT_EQ(page.events.size(), 1U);
  EXPECT_EQ(page.events[0].text, "adapter VM-01: link down");
  EXPECT_EQ(page.events[0].level, log::Level::kWarn);
}

}  // namespace
}  // namespace pvrdma::events
