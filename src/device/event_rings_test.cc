#include "device/event_rings.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include "device/adapter_log.h"
#include "device/saved.h"
#include "support/guest_memory.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kMaxCq = 2000;

class EventRingsTest : public testing::Test {
 protected:
  EventRingsTest() {
    const auto async = guest_.object(4);
    const auto notifications = guest_.object(4);
    const std::uint32_t count = 4;
    EXPECT_EQ(guestmem::read_page_directory(guest_.space(), guestmem::GuestPhys(async.directory), count,
                                            count, region_.async_pages),
              guestmem::DirectoryStatus::kOk);
    EXPECT_EQ(guestmem::read_page_directory(guest_.space(), guestmem::GuestPhys(notifications.directory),
                                            count, count, region_.notification_pages),
              guestmem::DirectoryStatus::kOk);
    // The driver's own numbers would be 1536 and 3072. Its arithmetic makes them these.
    async_ = std::make_unique<test::RingPeer>(guest_, async.pages, shape(512, 8));
    notifications_ = std::make_unique<test::RingPeer>(guest_, notifications.pages, shape(1024, 4));
    for (std::uint32_t vector = 0; vector < 3; ++vector) {
      eventfds_[vector] = Fd(::eventfd(0, EFD_NONBLOCK));
      EXPECT_EQ(interrupts_.assign(vector, Fd(::dup(eventfds_[vector].get()))), 0);
    }
  }
  static guestmem::RingShape shape(std::uint32_t count, std::uint32_t stride) {
    return {.role = guestmem::RingRole::kProducer,
            .words = guestmem::RingWords::kRx,
            .first_page = 1,
            .element_count = count,
            .stride_bytes = stride};
  }
  std::uint64_t interrupts(abi::Vector vector) {
    std::uint64_t count = 0;
    return ::read(eventfds_[static_cast<std::size_t>(vector)].get(), &count, 8) == 8 ? count : 0;
  }
  void post(std::uint32_t info) { rings_.post(abi::EventType::kCommEst, info); }

  test::GuestMemory guest_;
  SharedRegion region_;
  std::unique_ptr<test::RingPeer> async_;
  std::unique_ptr<test::RingPeer> notifications_;
  Fd eventfds_[3];
  SteadyClock clock_;
  AdapterLog log_{"VM-01", clock_};
  Interrupts interrupts_{clock_, log_};
  Counters counters_;
  EventRings rings_{guest_.space(), interrupts_, counters_, kMaxCq};
  Instant now_{std::chrono::seconds(1)};
};

TEST_F(EventRingsTest, NothingBeforeAttachAndAfterDetach) {
  post(1);
  rings_.notify(verbs::CqHandle(1));
  ASSERT_TRUE(rings_.attach(region_));
  EXPECT_EQ(async_->waiting(), 0u);
  rings_.detach();
  post(2);
  rings_.notify(verbs::CqHandle(2));
  EXPECT_FALSE(rings_.holds_back());
  EXPECT_EQ(async_->waiting(), 0u);
  EXPECT_EQ(notifications_->waiting(), 0u);
  EXPECT_EQ(interrupts_.raised_total(), 0u);
}

TEST_F(EventRingsTest, EachGoesToItsRingAndVector) {
  ASSERT_TRUE(rings_.attach(region_));
  rings_.post(abi::EventType::kPortErr, 1);
  EXPECT_EQ(interrupts(abi::Vector::kAsyncEvent), 1u);
  EXPECT_EQ(interrupts(abi::Vector::kNotification), 0u);
  const auto event = async_->poll<abi::AsyncEvent>();
  EXPECT_EQ(event.type, 10u);
  EXPECT_EQ(event.info, 1u);
  rings_.notify(verbs::CqHandle(77));
  EXPECT_EQ(interrupts(abi::Vector::kNotification), 1u);
  EXPECT_EQ(notifications_->poll<abi::Notification>().info, 77u);
}

TEST_F(EventRingsTest, FiveThousandEventsWrapInOrder) {
  ASSERT_TRUE(rings_.attach(region_));
  std::uint32_t taken = 0;
  for (std::uint32_t i = 0; i < 5000; ++i) {
    post(i);
    if (async_->waiting() < 500) continue;
    while (async_->waiting() != 0) ASSERT_EQ(async_->poll<abi::AsyncEvent>().info, taken++);
  }
  while (async_->waiting() != 0) ASSERT_EQ(async_->poll<abi::AsyncEvent>().info, taken++);
  EXPECT_EQ(taken, 5000u);
  EXPECT_LT(async_->prod_tail(), 1024u);
  EXPECT_EQ(counters_.events_held_back, 0u);
}

TEST_F(EventRingsTest, TenThousandNotificationsWrap) {
  ASSERT_TRUE(rings_.attach(region_));
  for (std::uint32_t i = 0; i < 10000; ++i) {
    rings_.notify(verbs::CqHandle(i % kMaxCq));
    ASSERT_EQ(notifications_->waiting(), 1u);
    ASSERT_EQ(notifications_->poll<abi::Notification>().info, i % kMaxCq);
  }
  EXPECT_LT(notifications_->prod_tail(), 2048u);
}

TEST_F(EventRingsTest, EventsWithoutRoomWaitInOrderAndAreBounded) {
  ASSERT_TRUE(rings_.attach(region_));
  const std::uint32_t kSent = 512 + EventRings::kHeldEventsMax + 100;
  for (std::uint32_t i = 0; i < kSent; ++i) post(i);
  EXPECT_EQ(async_->waiting(), 512u) << "never more than the effective ring";
  EXPECT_EQ(counters_.events_held_back, EventRings::kHeldEventsMax);
  EXPECT_EQ(counters_.events_dropped, 100u);
  std::uint32_t taken = 0;
  while (async_->waiting() != 0) {
    ASSERT_EQ(async_->poll<abi::AsyncEvent>().info, taken++);
    rings_.drain(now_);
  }
  EXPECT_EQ(taken, 512 + EventRings::kHeldEventsMax);
  EXPECT_FALSE(rings_.holds_back());
  post(7777);
  EXPECT_EQ(async_->poll<abi::AsyncEvent>().info, 7777u);
}

TEST_F(EventRingsTest, NotificationsWithoutRoomWaitOncePerCq) {
  ASSERT_TRUE(rings_.attach(region_));
  for (int i = 0; i < 1024; ++i) rings_.notify(verbs::CqHandle(0));
  interrupts(abi::Vector::kNotification);
  for (int round = 0; round < 3; ++round)
    for (std::uint32_t cq = 100; cq < kMaxCq; ++cq) rings_.notify(verbs::CqHandle(cq));
  EXPECT_EQ(notifications_->waiting(), 1024u);
  EXPECT_EQ(interrupts(abi::Vector::kNotification), 0u);
  for (int i = 0; i < 1024; ++i) ASSERT_EQ(notifications_->poll<abi::Notification>().info, 0u);

  std::multiset<std::uint32_t> seen;
  while (rings_.holds_back()) {
    rings_.drain(now_);
    EXPECT_EQ(interrupts(abi::Vector::kNotification), 1u) << "one interrupt for the whole burst";
    while (notifications_->waiting() != 0) seen.insert(notifications_->poll<abi::Notification>().info);
  }
  EXPECT_EQ(seen.size(), kMaxCq - 100);
  EXPECT_EQ(std::set<std::uint32_t>(seen.begin(), seen.end()).size(), kMaxCq - 100);
}

TEST_F(EventRingsTest, AWaitingCqIsNotStarvedByLowerHandles) {
  ASSERT_TRUE(rings_.attach(region_));
  for (int i = 0; i < 1024; ++i) rings_.notify(verbs::CqHandle(0));
  rings_.notify(verbs::CqHandle(1900));
  bool seen = false;
  for (int i = 0; i < 3000 && !seen; ++i) {
    for (std::uint32_t cq = 0; cq < 200; ++cq) rings_.notify(verbs::CqHandle(cq));
    seen = notifications_->poll<abi::Notification>().info == 1900;
    rings_.drain(now_);
  }
  EXPECT_TRUE(seen);
}

TEST_F(EventRingsTest, ForgetsWhatWaitsForADestroyedObject) {
  ASSERT_TRUE(rings_.attach(region_));
  for (int i = 0; i < 512; ++i) post(0);
  for (int i = 0; i < 1024; ++i) rings_.notify(verbs::CqHandle(0));
  rings_.post(abi::EventType::kQpLastWqeReached, 5);
  rings_.post(abi::EventType::kCqErr, 5);
  rings_.post(abi::EventType::kSrqLimitReached, 5);
  rings_.post(abi::EventType::kPortErr, 5);
  rings_.notify(verbs::CqHandle(5));
  rings_.notify(verbs::CqHandle(6));
  rings_.forget_qp(verbs::QpHandle(5));
  rings_.forget_cq(verbs::CqHandle(5));
  rings_.forget_srq(verbs::SrqHandle(5));
  for (int i = 0; i < 512; ++i) async_->poll<abi::AsyncEvent>();
  for (int i = 0; i < 1024; ++i) notifications_->poll<abi::Notification>();
  rings_.drain(now_);
  ASSERT_EQ(async_->waiting(), 1u);
  EXPECT_EQ(async_->poll<abi::AsyncEvent>().type, 10u);
  ASSERT_EQ(notifications_->waiting(), 1u);
  EXPECT_EQ(notifications_->poll<abi::Notification>().info, 6u);
}

TEST_F(EventRingsTest, RetriesBackOffUntilTheGuestMakesRoom) {
  ASSERT_TRUE(rings_.attach(region_));
  EXPECT_EQ(rings_.retry_at(), Instant::never());
  for (int i = 0; i < 513; ++i) post(0);
  std::vector<Duration> waits;
  for (int i = 0; i < 9; ++i) {
    now_ = std::max(now_, rings_.retry_at());
    rings_.drain(now_);
    waits.push_back(rings_.retry_at() - now_);
  }
  using std::chrono::milliseconds;
  EXPECT_EQ(waits.front(), milliseconds(1));
  EXPECT_EQ(waits.back(), milliseconds(64));
  async_->poll<abi::AsyncEvent>();
  rings_.drain(now_);
  EXPECT_EQ(rings_.retry_at(), Instant::never());
}

TEST_F(EventRingsTest, AnInvalidIndexHoldsBackAndIsCounted) {
  ASSERT_TRUE(rings_.attach(region_));
  async_->set_cons_head(0xdead'beef);
  post(1);
  EXPECT_EQ(counters_.invalid_event_indices, 1u);
  EXPECT_EQ(async_->prod_tail(), 0u);
  async_->set_cons_head(0);
  rings_.drain(now_);
  EXPECT_EQ(async_->poll<abi::AsyncEvent>().info, 1u);
}

// The rings of another daemon for the same guest (ADR 16).
TEST_F(EventRingsTest, WhatWaitsGoesOnElsewhere) {
  ASSERT_TRUE(rings_.attach(region_));
  for (int i = 0; i < 1024; ++i) rings_.notify(verbs::CqHandle(0));
  for (int i = 0; i < 512; ++i) post(0);
  for (const std::uint32_t cq : {3u, 64u, 1900u}) rings_.notify(verbs::CqHandle(cq));
  for (std::uint32_t i = 1; i <= 20; ++i) post(i);
  for (int i = 0; i < 10; ++i) async_->poll<abi::AsyncEvent>();
  rings_.drain(now_);  // ten of them, so the oldest is no longer the first
  for (std::uint32_t i = 21; i <= 30; ++i) post(i);
  const SavedEventRings saved = rings_.save(now_);
  const Instant retry_at = rings_.retry_at();
  rings_.detach();
  EventRings there(guest_.space(), interrupts_, counters_, kMaxCq);
  ASSERT_TRUE(there.restore(saved, region_, now_));
  EXPECT_TRUE(there.holds_back());
  EXPECT_EQ(there.retry_at(), retry_at);

  std::vector<std::uint32_t> cqs;
  std::vector<std::uint32_t> events;
  while (there.holds_back() || notifications_->waiting() + async_->waiting() != 0) {
    while (notifications_->waiting() != 0) cqs.push_back(notifications_->poll<abi::Notification>().info);
    while (async_->waiting() != 0) events.push_back(async_->poll<abi::AsyncEvent>().info);
    there.drain(now_);
  }
  EXPECT_EQ(cqs.size(), 1027u);
  EXPECT_EQ(std::vector(cqs.end() - 3, cqs.end()), (std::vector<std::uint32_t>{3, 64, 1900}));
  ASSERT_GE(events.size(), 30u);
  for (std::uint32_t i = 1; i <= 30; ++i) EXPECT_EQ(events[events.size() - 31 + i], i);
}

TEST_F(EventRingsTest, SurvivesTheLossOfItsMemory) {
  ASSERT_TRUE(rings_.attach(region_));
  guest_.space().unmap_all();
  post(1);
  rings_.notify(verbs::CqHandle(1));
  rings_.drain(now_);
  EXPECT_TRUE(rings_.holds_back());
  rings_.detach();
  EXPECT_FALSE(rings_.holds_back());
}

}  // namespace
}  // namespace pvrdma::device
