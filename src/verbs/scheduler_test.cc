#include "verbs/scheduler.h"

#include <algorithm>
#include <array>
#include <random>

#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {
namespace {

constexpr Instant at(int us) {
  return Instant{std::chrono::microseconds(us)};
}

// A QP cannot be made without rings and CQs. The scheduler does not use them.
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

  static constexpr int kQps = 40;
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
  scheduler.make_ready(qp(1));  // keeps its place among the QPs that wait
  scheduler.wake_waiting();
  for (const int i : {1, 2, 0, 1}) EXPECT_EQ(scheduler.take_ready(), &qp(i));
  EXPECT_EQ(scheduler.take_ready(), nullptr);
  scheduler.wake_waiting();
  EXPECT_FALSE(scheduler.any_ready());
}

TEST_F(SchedulerTest, WhoIsMadeReadyAfterAWakingComesBehindThoseWoken) {
  scheduler.make_ready(qp(4));
  scheduler.wait_for_path(qp(0));
  scheduler.wait_for_path(qp(1));
  scheduler.wake_waiting();
  scheduler.wait_for_path(qp(0));  // it was woken, so it has its turn nevertheless
  scheduler.make_ready(qp(2));
  EXPECT_EQ(scheduler.take_ready(), &qp(4));
  EXPECT_EQ(scheduler.take_ready(), &qp(0));
  scheduler.make_ready(qp(0));
  for (const int i : {1, 2, 0}) EXPECT_EQ(scheduler.take_ready(), &qp(i));
  EXPECT_FALSE(scheduler.any_ready());
}

TEST_F(SchedulerTest, WhoIsWokenAgainStarvesNobody) {
  scheduler.wait_for_path(qp(0));
  scheduler.wait_for_path(qp(1));
  scheduler.wake_waiting();
  scheduler.make_ready(qp(3));
  EXPECT_EQ(scheduler.take_ready(), &qp(0));
  scheduler.wait_for_path(qp(0));
  scheduler.wait_for_path(qp(2));
  scheduler.wake_waiting();
  for (const int i : {1, 3, 0, 2}) EXPECT_EQ(scheduler.take_ready(), &qp(i));
  EXPECT_FALSE(scheduler.any_ready());
}

TEST_F(SchedulerTest, NobodyIsLostWhenThoseWokenAreForgotten) {
  scheduler.wait_for_path(qp(0));
  scheduler.wake_waiting();
  scheduler.make_ready(qp(1));
  scheduler.wait_for_path(qp(2));
  scheduler.wake_waiting();
  scheduler.forget(qp(0));
  EXPECT_TRUE(scheduler.any_ready());
  for (const int i : {1, 2}) EXPECT_EQ(scheduler.take_ready(), &qp(i));
  EXPECT_FALSE(scheduler.any_ready());
  EXPECT_EQ(scheduler.take_ready(), nullptr);
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

// Compares the heap with a model: an array of all QPs' deadlines that is searched from end to end.
TEST_F(SchedulerTest, TimersKeepTheirOrderWhateverIsArmedAndForgotten) {
  std::array<Instant, kQps> model;
  model.fill(Instant::never());
  std::mt19937 random(17);
  const auto below = [&](unsigned bound) { return static_cast<int>(random() % bound); };
  for (int step = 0; step < 20'000; ++step) {
    const int i = below(kQps);
    auto& deadline = model[static_cast<std::size_t>(i)];
    if (const int what = below(8); what < 5) {
      const Instant when = at(step + below(500));
      scheduler.arm(qp(i), when);
      deadline = std::min(deadline, when);
    } else if (what == 5) {
      scheduler.forget(qp(i));
      deadline = Instant::never();
    } else if (QueuePair* due = scheduler.take_due(at(step)); due != nullptr) {
      const auto first = std::min_element(model.begin(), model.end());
      const auto taken =
          std::find_if(qps.begin(), qps.end(), [&](const auto& each) { return each.get() == due; });
      auto& taken_deadline = model[static_cast<std::size_t>(taken - qps.begin())];
      ASSERT_EQ(taken_deadline, *first) << step;
      ASSERT_LE(taken_deadline, at(step));
      taken_deadline = Instant::never();
    }
    ASSERT_EQ(scheduler.next_deadline(), *std::min_element(model.begin(), model.end())) << step;
  }
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
