#include "verbs/scheduler.h"

#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {
namespace {

constexpr Instant at(int us) {
  return Instant{std::chrono::microseconds(us)};
}

// QPs need rings and CQs to exist; the scheduler looks at none of it.
class SchedulerTest : public ::testing::Test {
 protected:
  SchedulerTest() {
    scheduler.reserve(kQps);
    const guestmem::RingShape shape{
        .role = guestmem::RingRole::kConsumer, .element_count = 1, .stride_bytes = 128};
    const auto object = memory.object(2);
    guestmem::PageList pages;
    for (const auto page : object.pages) pages.append(page);
    for (int i = 0; i < kQps; ++i) {
      qps.push_back(std::make_unique<QueuePair>(
          QueuePair::Identity{}, *cq, *cq,
          SendSide(*guestmem::GuestRing::create(memory.space(), pages, shape), 1), ReceiveSide{}));
    }
  }
  std::unique_ptr<CompletionQueue> make_cq() {
    const CreateCq request{.cqe_count = 1, .page_count = 2, .page_directory = memory.object(2).directory};
    auto made = CompletionQueue::create(CqHandle(1), request, limits, memory.space(), events);
    EXPECT_TRUE(made);
    return std::move(*made);
  }
  QueuePair& qp(int i) { return *qps[static_cast<std::size_t>(i)]; }

  static constexpr int kQps = 4;
  Limits limits;
  test::GuestMemory memory;
  RecordingEvents events;
  std::unique_ptr<CompletionQueue> cq = make_cq();
  std::vector<std::unique_ptr<QueuePair>> qps;
  Scheduler scheduler;
};

TEST_F(SchedulerTest, ReadyQpsHaveTheirTurnInOrderAndOnce) {
  scheduler.make_ready(qp(1));
  scheduler.make_ready(qp(0));
  scheduler.make_ready(qp(1));
  EXPECT_EQ(scheduler.take_ready(), &qp(1));
  scheduler.make_ready(qp(1));
  EXPECT_EQ(scheduler.take_ready(), &qp(0));
  EXPECT_EQ(scheduler.take_ready(), &qp(1));
  EXPECT_EQ(scheduler.take_ready(), nullptr);
  EXPECT_FALSE(scheduler.any_ready());
}

TEST_F(SchedulerTest, ForgetsFromAnyPlaceOfTheList) {
  for (int gone = 0; gone < 3; ++gone) {
    for (int i = 0; i < 3; ++i) scheduler.make_ready(qp(i));
    scheduler.forget(qp(gone));
    scheduler.make_ready(qp(3));
    for (int i = 0; i < 4; ++i) {
      if (i != gone) {
        EXPECT_EQ(scheduler.take_ready(), &qp(i));
      }
    }
    EXPECT_EQ(scheduler.take_ready(), nullptr);
  }
}

TEST_F(SchedulerTest, ThoseWhoWaitForAPathWakeInOrderBehindTheReadyOnes) {
  for (const int i : {2, 0, 3, 1, 0}) scheduler.wait_for_path(qp(i));
  EXPECT_FALSE(scheduler.any_ready());
  EXPECT_EQ(scheduler.next_deadline(), Instant::never());
  scheduler.forget(qp(3));
  scheduler.make_ready(qp(1));
  scheduler.wake_waiting();
  for (const int i : {1, 2, 0}) EXPECT_EQ(scheduler.take_ready(), &qp(i));
  EXPECT_EQ(scheduler.take_ready(), nullptr);
  scheduler.wake_waiting();
  EXPECT_FALSE(scheduler.any_ready());
}

TEST_F(SchedulerTest, TimersComeDueInOrder) {
  EXPECT_EQ(scheduler.next_deadline(), Instant::never());
  scheduler.arm(qp(0), at(30));
  scheduler.arm(qp(1), at(10));
  scheduler.arm(qp(2), at(20));
  EXPECT_EQ(scheduler.next_deadline(), at(10));
  EXPECT_EQ(scheduler.take_due(at(9)), nullptr);
  EXPECT_EQ(scheduler.take_due(at(25)), &qp(1));
  EXPECT_EQ(scheduler.take_due(at(25)), &qp(2));
  EXPECT_EQ(scheduler.take_due(at(25)), nullptr);
  EXPECT_EQ(scheduler.next_deadline(), at(30));
}

TEST_F(SchedulerTest, AnArmedQpWakesAtTheEarliestTime) {
  scheduler.arm(qp(0), at(30));
  scheduler.arm(qp(1), at(25));
  scheduler.arm(qp(0), at(40));
  EXPECT_EQ(scheduler.next_deadline(), at(25));
  scheduler.arm(qp(0), at(20));
  EXPECT_EQ(scheduler.take_due(at(22)), &qp(0));
  EXPECT_EQ(scheduler.take_due(at(100)), &qp(1));
  EXPECT_EQ(scheduler.take_due(at(100)), nullptr);
  scheduler.arm(qp(0), at(200));
  EXPECT_EQ(scheduler.next_deadline(), at(200));
}

TEST_F(SchedulerTest, AForgottenQpIsNotWoken) {
  for (int i = 0; i < 4; ++i) scheduler.arm(qp(i), at(10 * (4 - i)));
  scheduler.forget(qp(3));
  EXPECT_EQ(scheduler.next_deadline(), at(20));
  EXPECT_EQ(scheduler.take_due(at(100)), &qp(2));
  scheduler.forget(qp(1));
  scheduler.forget(qp(0));
  EXPECT_EQ(scheduler.next_deadline(), Instant::never());
}

}  // namespace
}  // namespace pvrdma::verbs
