// Which CQs of a mapped context fire, and when, if the adapter saw no ARM for them.
#include "verbs/completion_watch.h"

#include <gtest/gtest.h>
#include <memory>
#include <vector>

#include "support/guest_memory.h"

namespace pvrdma::verbs {
namespace {

using Arm = CompletionQueue::Arm;
using std::chrono::microseconds;

constexpr std::uint32_t kCqes = 64;
constexpr Duration kPatience = CompletionWatch::kPatienceMin;

class CompletionCount final : public EventSink {
 public:
  void completion_event(CqHandle) override { ++count; }
  void async_event(abi::EventType, std::uint32_t) override { ADD_FAILURE(); }
  void qp_failed(Qpn, std::string_view) override { ADD_FAILURE(); }
  int count = 0;
};

// A CQ together with the guest's side of it.
struct WatchedCq {
  WatchedCq(test::GuestMemory& memory, std::uint32_t handle)
      : object(memory.object(3)),
        ring(memory, object.pages,
             {.words = guestmem::RingWords::kRx, .element_count = kCqes, .stride_bytes = 64}) {
    auto created = CompletionQueue::create(CqHandle(handle),
                                           {.context = ContextHandle(1),
                                            .cqe_count = kCqes,
                                            .page_count = object.page_count(),
                                            .page_directory = object.directory},
                                           Limits{}, memory.space(), events);
    cq = std::move(created.value());
  }

  void push(Solicited solicited = Solicited::kNo) {
    EXPECT_EQ(cq->push(abi::Cqe{}, solicited), CompletionQueue::Pushed::kOk);
  }
  void poll() { static_cast<void>(ring.poll<abi::Cqe>()); }

  CompletionCount events;
  test::GuestMemory::Object object;
  test::RingPeer ring;
  std::unique_ptr<CompletionQueue> cq;
};

class CompletionWatchTest : public testing::Test {
 protected:
  void SetUp() override { watch.add(*c.cq, context); }
  void word() { watch.on_word(context); }
  // Does what the engine does each turn.
  void turn() {
    while (watch.run(now)) {
    }
    if (watch.next_deadline() <= now) watch.on_time(now);
  }
  void pass(Duration time) {
    turn();
    now = now + time;
    turn();
  }
  // The guest polls without asking for events; with each CQE the adapter finds a word of another CQ.
  void take_by_itself(int batches) {
    for (int i = 0; i < batches; ++i) {
      word();
      c.push();
      turn();
      c.poll();
      pass(CompletionWatch::kPatienceMax);
    }
  }
  // The time from a CQE that the guest does not take to the event.
  Duration time_to_event() {
    const int before = c.events.count;
    word();
    c.push();
    const Instant begin = now;
    while (c.events.count == before && now - begin <= CompletionWatch::kPatienceMax) pass(microseconds(10));
    while (c.ring.waiting() != 0) c.poll();
    return now - begin;
  }

  test::GuestMemory memory;
  Counters counters;
  MappedContext context;
  CompletionWatch watch{counters};
  WatchedCq c{memory, 1};
  Instant now{std::chrono::seconds(1)};
};

TEST_F(CompletionWatchTest, WithoutAWordNobodyIsTold) {
  c.push();
  pass(std::chrono::seconds(1));
  EXPECT_EQ(c.events.count, 0);
  EXPECT_EQ(watch.next_deadline(), Instant::never());
}

TEST_F(CompletionWatchTest, ASleeperWhoseArmWasHiddenIsWoken) {
  word();
  c.push();
  pass(kPatience - microseconds(1));
  EXPECT_EQ(c.events.count, 0) << "it may be about to take it";
  EXPECT_EQ(watch.next_deadline(), now + microseconds(1));
  pass(microseconds(1));
  EXPECT_EQ(c.events.count, 1);
  EXPECT_EQ(counters.events_maybe_armed, 1u);
}

TEST_F(CompletionWatchTest, AnArmHiddenAfterTheCqeCountsToo) {
  c.push();
  pass(std::chrono::seconds(1));
  word();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, OneEventForAllWordsBeforeIt) {
  for (int i = 0; i < 3; ++i) word();
  c.push();
  pass(kPatience);
  c.push();
  pass(std::chrono::seconds(1));
  EXPECT_EQ(c.events.count, 1);
}

// The guest took one CQE, found no second one, and slept before the second arrived.
TEST_F(CompletionWatchTest, WhoHasTakenACqeAndSleepsIsWokenOncePatienceHasPassedAgain) {
  word();
  c.push();
  turn();
  c.poll();
  c.push();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 0) << "its index has moved";
  pass(kPatience);
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, AnEmptyRingNeedsNoEventButItsNextCqeDoes) {
  word();
  c.push();
  turn();
  c.poll();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 0);
  EXPECT_EQ(watch.next_deadline(), Instant::never());
  c.push();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, AnArmThatIsSeenFiresAtOnceAndOnce) {
  c.push();
  word();
  c.cq->arm(Arm::kAny);
  EXPECT_EQ(c.events.count, 1);
  c.poll();
  word();
  c.cq->arm(Arm::kAny);
  c.push();
  EXPECT_EQ(c.events.count, 2);
  pass(std::chrono::seconds(1));
  EXPECT_EQ(c.events.count, 2);
  EXPECT_EQ(counters.events_maybe_armed, 0u);
}

// The hidden ARM asked for any CQE, the visible one for a solicited CQE. The guest sleeps until any CQE wakes
// it.
TEST_F(CompletionWatchTest, BehindAnArmForSolicitedOnesMayBeOneForAny) {
  word();
  c.cq->arm(Arm::kSolicited);
  c.push(Solicited::kNo);
  EXPECT_EQ(c.events.count, 0);
  pass(kPatience);
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, WhoPollsIsAskedEverMoreRarely) {
  Duration expected = kPatience;
  for (int i = 0; i < 12; ++i) {
    take_by_itself(CompletionWatch::kBatchesOfPoller);
    EXPECT_EQ(time_to_event(), expected);
    expected = std::min(2 * expected, CompletionWatch::kPatienceMax);
  }
  EXPECT_EQ(time_to_event(), CompletionWatch::kPatienceMax) << "it has begun to sleep";
  EXPECT_EQ(time_to_event(), kPatience);
}

TEST_F(CompletionWatchTest, WhoSleepsEachTimeIsWokenSoonEachTime) {
  for (int i = 0; i < 20; ++i) {
    take_by_itself(CompletionWatch::kBatchesOfPoller - 1);
    EXPECT_EQ(time_to_event(), kPatience);
  }
}

TEST_F(CompletionWatchTest, WhoArmsSleeps) {
  for (int i = 0; i < 2; ++i) {
    take_by_itself(CompletionWatch::kBatchesOfPoller);
    time_to_event();
  }
  word();
  c.cq->arm(Arm::kAny);
  c.push();
  c.poll();
  EXPECT_EQ(time_to_event(), kPatience);
}

TEST_F(CompletionWatchTest, ATurnLooksAtAFewOfManyCqs) {
  test::GuestMemory big(64u << 20);
  std::vector<std::unique_ptr<WatchedCq>> many;
  constexpr std::uint32_t kCqs = 4 * CompletionWatch::kLooksPerTurn;
  const auto told = [&] {
    std::uint32_t sum = 0;
    for (const auto& each : many) sum += static_cast<std::uint32_t>(each->events.count);
    return sum;
  };
  for (std::uint32_t i = 0; i < kCqs; ++i) {
    many.push_back(std::make_unique<WatchedCq>(big, i + 2));
    watch.add(*many.back()->cq, context);
    many.back()->push();
  }
  word();
  for (int turns = 1; turns < 4; ++turns) EXPECT_TRUE(watch.run(now));
  EXPECT_FALSE(watch.run(now));
  now = now + kPatience;
  for (std::uint32_t turns = 1; turns <= 4; ++turns) {
    EXPECT_LE(watch.next_deadline(), now);
    watch.on_time(now);
    EXPECT_EQ(told(), turns * CompletionWatch::kLooksPerTurn);
  }
  EXPECT_EQ(watch.next_deadline(), Instant::never());
}

TEST_F(CompletionWatchTest, ADestroyedCqIsForgotten) {
  WatchedCq other(memory, 2);
  watch.add(*other.cq, context);
  word();
  other.push();
  c.push();
  turn();
  other.cq.reset();
  CompletionWatch::forget(*c.cq);
  EXPECT_EQ(watch.next_deadline(), Instant::never());
  pass(std::chrono::seconds(1));
  EXPECT_EQ(c.events.count, 0);
}

}  // namespace
}  // namespace pvrdma::verbs
