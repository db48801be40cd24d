#include "transport/siblings/siblings.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <memory>
#include <unistd.h>

#include "base/fd.h"
#include "base/time.h"
#include "transport/siblings/ring_fixture.h"
#include "transport/siblings/sibling.h"

namespace pvrdma::transport::siblings {
namespace {

using test::Memory, test::request, test::response;
using namespace std::chrono_literals;

constexpr ShardNumber kFirst{0};
constexpr ShardNumber kSecond{1};
constexpr SegmentId kOne{.dvs = 7, .vlan = 11};
constexpr SegmentId kOther{.dvs = 7, .vlan = 12};

struct CountingInbound final : SiblingInbound {
  Admission admit(ShardNumber, SegmentId, const verbs::Gid&, const verbs::Gid&) override { return {}; }
  void on_room() override { ++rooms; }
  void on_restored(ShardNumber, Instant) override { ++restored; }
  int rooms = 0;
  int restored = 0;
};

class SiblingsTest : public testing::Test {
 protected:
  const std::shared_ptr<HostRings> rings_ = HostRings::create(2).value();
  SteadyClock clock_;
  const std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  CountingInbound inbound_;
};

// Two tenants may use the same GIDs and QP numbers, each in a segment of its own.
TEST_F(SiblingsTest, AnAnswerEndsNoRequestOfAnotherSegment) {
  Sibling first(*rings_, kFirst, kSecond);
  Sibling second(*rings_, kSecond, kFirst);
  Memory source(5000);
  AdapterShare share;
  for (const SegmentId segment : {kOther, kOne}) {
    ASSERT_TRUE(first.requests.has_room(share));
    ASSERT_TRUE(first.requests.lend(request(1, 5000), segment, {share, this, verbs::Qpn(5)}, source.spans()));
  }
  first.revoke_answered(kOne, response(1));
  const Slot* const slot = second.requests_in.next();
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->segment(), kOther);
  second.requests_in.pass();
  EXPECT_EQ(second.requests_in.next(), nullptr);
}

TEST_F(SiblingsTest, AnAnswerEndsOnlyWhatItSaysIsExecuted) {
  Sibling first(*rings_, kFirst, kSecond);
  Sibling second(*rings_, kSecond, kFirst);
  Memory source(5000);
  AdapterShare share;
  for (const std::uint32_t number : {1U, 2U, 3U}) {
    ASSERT_TRUE(first.requests.has_room(share));
    ASSERT_TRUE(
        first.requests.lend(request(number, 5000), kOne, {share, this, verbs::Qpn(5)}, source.spans()));
  }
  verbs::Response answer = response(2);
  answer.syndrome = verbs::Syndrome::kProgress;  // up to the offset 0
  first.revoke_answered(kOne, answer);
  const Slot* const slot = second.requests_in.next();
  ASSERT_NE(slot, nullptr);
  EXPECT_EQ(slot->message.request.number.value, 2U);
  first.revoke_answered(kOne, response(2));
  Memory target(5000);
  EXPECT_FALSE(SlotPayload(second.way_in.requests, *slot, loop_->blame(), nullptr).copy_to(target.spans()));
  ASSERT_NE(second.requests_in.next(), nullptr);
  EXPECT_EQ(second.requests_in.next()->message.request.number.value, 3U);
}

// The other shard's guests can make it revoke answers as often as they like.
TEST_F(SiblingsTest, RepeatEverythingAtMostOnceInAMillisecond) {
  const auto siblings = Siblings::create(rings_, kFirst, *loop_, inbound_).value();
  std::atomic<std::uint32_t>& restored = rings_->way(kSecond, kFirst).answers.restored;
  const Instant begin = Instant{} + 1s;
  restored.fetch_add(1);
  siblings->run(begin);
  EXPECT_EQ(inbound_.restored, 1);
  EXPECT_EQ(siblings->next_deadline(), Instant::never());
  for (int i = 1; i < 10; ++i) {
    restored.fetch_add(1);
    siblings->run(begin + i * 50us);
  }
  EXPECT_EQ(inbound_.restored, 1);
  EXPECT_EQ(siblings->next_deadline(), begin + 1ms);
  siblings->run(begin + 1ms);
  EXPECT_EQ(inbound_.restored, 2);
}

TEST_F(SiblingsTest, HaveASiblingRepeatEverything) {
  const auto first = Siblings::create(rings_, kFirst, *loop_, inbound_).value();
  rings_->bell(kSecond).lie_down();
  first->have_all_repeated(kSecond);
  first->flush({});
  EXPECT_FALSE(rings_->bell(kSecond).ring()) << "it has been rung";
  Siblings::create(rings_, kSecond, *loop_, inbound_).value()->run(Instant{} + 1s);
  EXPECT_EQ(inbound_.restored, 1);
}

TEST_F(SiblingsTest, SayThatTheBellCannotBeWatched) {
  const Fd file(::open("/proc/self/exe", O_RDONLY | O_CLOEXEC));
  ASSERT_GE(::dup3(file.get(), rings_->bell(kFirst).fd(), O_CLOEXEC), 0);  // epoll takes no regular files
  const auto made = Siblings::create(rings_, kFirst, *loop_, inbound_);
  ASSERT_FALSE(made);
  EXPECT_EQ(made.error().code, EPERM);
}

}  // namespace
}  // namespace pvrdma::transport::siblings
