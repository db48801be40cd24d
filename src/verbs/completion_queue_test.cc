#include "verbs/completion_queue.h"

#include <optional>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "support/guest_memory.h"
#include "verbs/recorded_events.h"

namespace pvrdma::verbs {
namespace {

using guestmem::GuestPhys;
using testing::ElementsAre;
using testing::IsEmpty;
using Arm = CompletionQueue::Arm;
using Pushed = CompletionQueue::Pushed;

constexpr char kFired[] = "completion 7";
constexpr char kCqErr[] = "async 0 7";

class CompletionQueueTest : public testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 4;

  Outcome<std::unique_ptr<CompletionQueue>> create(const CreateCq& request) {
    return CompletionQueue::create(CqHandle(7), request, limits, memory.space(), events);
  }
  CreateCq request(std::uint32_t cqe_count) {
    return {.context = ContextHandle(2),
            .cqe_count = cqe_count,
            .page_count = object.page_count(),
            .page_directory = object.directory};
  }
  void SetUp() override {
    cq = std::move(create(request(kCount)).value());
    guest.emplace(
        memory, object.pages,
        guestmem::RingShape{.words = guestmem::RingWords::kRx, .element_count = kCount, .stride_bytes = 64});
  }
  static abi::Cqe cqe(std::uint64_t wr_id, abi::CompletionStatus status = abi::CompletionStatus::kSuccess) {
    abi::Cqe out{};
    out.wr_id = wr_id;
    out.status = static_cast<std::uint32_t>(status);
    return out;
  }
  Pushed push(std::uint64_t wr_id, Solicited solicited = Solicited::kNo) {
    return cq->push(cqe(wr_id), solicited);
  }

  test::GuestMemory memory;
  test::GuestMemory::Object object = memory.object(2);
  Limits limits;
  RecordedEvents events;
  std::unique_ptr<CompletionQueue> cq;
  std::optional<test::RingPeer> guest;
};

TEST_F(CompletionQueueTest, CreateChecksItsNumbers) {
  struct Case {
    const char* what;
    std::uint32_t cqe_count;
    std::uint32_t page_count;
  };
  limits.max_cqe = 256;
  for (const Case& c :
       {Case{"no entries", 0, 2}, Case{"no power of two", 3, 2}, Case{"above the limit", 512, 9},
        Case{"page short", 128, 2}, Case{"no data page", 4, 1}, Case{"no page", 4, 0}}) {
    CreateCq bad = request(c.cqe_count);
    bad.page_count = c.page_count;
    EXPECT_EQ(create(bad).error(), CommandError::kInvalid) << c.what;
  }
  CreateCq nowhere = request(4);
  nowhere.page_directory = 0x1000;
  EXPECT_EQ(create(nowhere).error(), CommandError::kBadAddress);
  CreateCq unnamed = request(64);
  unnamed.page_directory = memory.directory({});
  EXPECT_EQ(create(unnamed).error(), CommandError::kBadAddress);
}

TEST_F(CompletionQueueTest, CreateTakesMorePagesThanNeededAndNeverLooksAtThem) {
  CreateCq large = request(64);
  large.page_count = 0xffff'ffff;
  const auto made = create(large);
  ASSERT_TRUE(made);
  EXPECT_EQ((*made)->cqe_count(), 64u);
  EXPECT_EQ((*made)->handle(), CqHandle(7));
  EXPECT_EQ((*made)->context(), ContextHandle(2));
}

TEST_F(CompletionQueueTest, AppendsInOrderThroughManyWraps) {
  for (std::uint64_t i = 0; i < 10 * kCount; ++i) {
    ASSERT_EQ(push(i), Pushed::kOk);
    ASSERT_EQ(guest->waiting(), 1u);
    ASSERT_EQ(guest->poll<abi::Cqe>().wr_id, i);
  }
  EXPECT_THAT(events.seen, IsEmpty());
}

TEST_F(CompletionQueueTest, AFullRingIsNeverOverwritten) {
  for (std::uint64_t i = 0; i < kCount; ++i) ASSERT_EQ(push(i), Pushed::kOk);
  EXPECT_EQ(push(99), Pushed::kFailed);
  EXPECT_TRUE(cq->in_error());
  EXPECT_EQ(guest->waiting(), kCount);
  for (std::uint64_t i = 0; i < kCount; ++i) EXPECT_EQ(guest->poll<abi::Cqe>().wr_id, i);
  EXPECT_EQ(push(100), Pushed::kFailed);  // there is room again, but the error stays
  EXPECT_EQ(guest->waiting(), 0u);
  EXPECT_THAT(events.seen, ElementsAre(kCqErr));
}

TEST_F(CompletionQueueTest, ImpossibleConsumerIndicesEndTheCq) {
  // A head ahead of the tail claims that more slots are free than the ring has.
  for (const std::uint32_t head : {2 * kCount, 0xffff'ffffu, 0x8000'0000u, 1u}) {
    const test::GuestMemory::Object fresh = memory.object(2);
    object = fresh;
    cq = std::move(create(request(kCount)).value());
    memory.store(GuestPhys(fresh.pages[0].value + 12), head);
    events.seen.clear();
    EXPECT_EQ(push(1), Pushed::kFailed) << head;
    EXPECT_EQ(push(2), Pushed::kFailed) << head;
    EXPECT_THAT(events.seen, ElementsAre(kCqErr)) << head;
    EXPECT_EQ(memory.load<std::uint32_t>(GuestPhys(fresh.pages[0].value + 8)), 0u) << head;
    EXPECT_EQ(memory.load<abi::Cqe>(fresh.pages[1]).wr_id, 0u) << head;
  }
}

TEST_F(CompletionQueueTest, VanishedMemoryEndsTheCq) {
  ASSERT_EQ(push(1), Pushed::kOk);
  memory.space().unmap_all();
  EXPECT_EQ(push(2), Pushed::kFailed);
  EXPECT_THAT(events.seen, ElementsAre(kCqErr));
  cq->arm(Arm::kAny);  // the ring is empty by now: better one event too many than one too few
  EXPECT_THAT(events.seen, ElementsAre(kCqErr, kFired));
}

TEST_F(CompletionQueueTest, UnarmedStaysQuiet) {
  ASSERT_EQ(push(1, Solicited::kYes), Pushed::kOk);
  EXPECT_THAT(events.seen, IsEmpty());
}

TEST_F(CompletionQueueTest, ArmIsOneShot) {
  cq->arm(Arm::kAny);
  EXPECT_THAT(events.seen, IsEmpty());
  ASSERT_EQ(push(1), Pushed::kOk);
  ASSERT_EQ(push(2), Pushed::kOk);
  EXPECT_THAT(events.seen, ElementsAre(kFired));
}

TEST_F(CompletionQueueTest, TheCqeIsThereBeforeItFires) {
  class Looking final : public EventSink {
   public:
    explicit Looking(test::RingPeer& g) : guest(g) {}
    void completion_event(CqHandle) override { waiting = guest.waiting(); }
    void async_event(abi::EventType, std::uint32_t) override {}
    void qp_failed(Qpn, std::string_view) override {}
    test::RingPeer& guest;
    std::uint32_t waiting = 0;
  } looking(*guest);
  cq = std::move(
      CompletionQueue::create(CqHandle(7), request(kCount), limits, memory.space(), looking).value());
  cq->arm(Arm::kAny);
  ASSERT_EQ(push(1), Pushed::kOk);
  EXPECT_EQ(looking.waiting, 1u);
}

TEST_F(CompletionQueueTest, WhatFiresAnArmedCq) {
  struct Case {
    const char* what;
    std::vector<Arm> arms;
    abi::CompletionStatus status;
    Solicited solicited;
    bool fires;
  };
  constexpr auto kOk = abi::CompletionStatus::kSuccess;
  const Case cases[] = {
      {"any, plain", {Arm::kAny}, kOk, Solicited::kNo, true},
      {"any, solicited", {Arm::kAny}, kOk, Solicited::kYes, true},
      {"solicited, plain", {Arm::kSolicited}, kOk, Solicited::kNo, false},
      {"solicited, solicited", {Arm::kSolicited}, kOk, Solicited::kYes, true},
      {"solicited, error", {Arm::kSolicited}, abi::CompletionStatus::kRemoteAccess, Solicited::kNo, true},
      {"solicited, flushed", {Arm::kSolicited}, abi::CompletionStatus::kFlushed, Solicited::kNo, true},
      {"any stays any", {Arm::kAny, Arm::kSolicited}, kOk, Solicited::kNo, true},
      {"any overrides", {Arm::kSolicited, Arm::kAny}, kOk, Solicited::kNo, true},
  };
  for (const Case& c : cases) {
    object = memory.object(2);
    cq = std::move(create(request(kCount)).value());
    events.seen.clear();
    for (const Arm arm : c.arms) cq->arm(arm);
    ASSERT_EQ(cq->push(cqe(1, c.status), c.solicited), Pushed::kOk) << c.what;
    EXPECT_EQ(events.seen.size(), c.fires ? 1u : 0u) << c.what;
  }
}

TEST_F(CompletionQueueTest, SolicitedStaysArmedPastPlainCqes) {
  cq->arm(Arm::kSolicited);
  ASSERT_EQ(push(1), Pushed::kOk);
  ASSERT_EQ(push(2, Solicited::kYes), Pushed::kOk);
  EXPECT_THAT(events.seen, ElementsAre(kFired));
}

TEST_F(CompletionQueueTest, ALateArmFiresForACqeNobodyWasToldOf) {
  ASSERT_EQ(push(1), Pushed::kOk);
  cq->arm(Arm::kAny);
  EXPECT_THAT(events.seen, ElementsAre(kFired));
  ASSERT_EQ(push(2), Pushed::kOk);  // the first firing used up the ARM
  EXPECT_THAT(events.seen, ElementsAre(kFired));
  cq->arm(Arm::kSolicited);
  EXPECT_THAT(events.seen, ElementsAre(kFired)) << "it is not what this ARM waits for";
  cq->arm(Arm::kAny);
  EXPECT_THAT(events.seen, ElementsAre(kFired, kFired));
}

TEST_F(CompletionQueueTest, ArmAfterPollingWaits) {
  ASSERT_EQ(push(1), Pushed::kOk);
  guest->poll<abi::Cqe>();
  cq->arm(Arm::kAny);
  EXPECT_THAT(events.seen, IsEmpty());
  ASSERT_EQ(push(2), Pushed::kOk);
  EXPECT_THAT(events.seen, ElementsAre(kFired));
}

// Applications do this on each event: ARM first, then poll. It costs one event per completion, not two.
TEST_F(CompletionQueueTest, ArmBeforePollingCostsNoSecondEvent) {
  cq->arm(Arm::kAny);
  for (std::size_t i = 1; i <= 20; ++i) {
    ASSERT_EQ(push(i), Pushed::kOk);
    ASSERT_EQ(events.seen.size(), i);
    cq->arm(Arm::kAny);
    ASSERT_EQ(events.seen.size(), i);
    EXPECT_EQ(guest->poll<abi::Cqe>().wr_id, i);
  }
}

}  // namespace
}  // namespace pvrdma::verbs
