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
  void word() { watch.on_word(context, nullptr, watch.begin_look()); }
  void word_of_cq() { watch.on_word(context, c.cq.get(), watch.begin_look()); }
  // Does what the engine does each turn.
  void turn() {
    while (watch.run(now)) {
    }
    if (watch.next_deadline() <= now) watch.on_time(now);
  }
  // The engine runs whenever something is due, as its thread does.
  void pass(Duration time) {
    const Instant end = now + time;
    turn();
    while (watch.next_deadline() < end) {
      now = watch.next_deadline();
      turn();
    }
    now = end;
    turn();
  }
  // The consumer looks again and again, and takes a CQE from time to time.
  void consumer_polls(Duration time) {
    constexpr Duration kLook = microseconds(10);
    int looks = 0;
    for (const Instant end = now + time; now < end; pass(kLook)) {
      if (looks++ % 10 == 0) {
        c.push();
        c.poll();
      }
      word_of_cq();
    }
  }
  // The time from a CQE that the consumer does not take to the event.
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

// The consumer took one CQE, found no second one, and slept before the second arrived.
TEST_F(CompletionWatchTest, AConsumerThatTookACqeAndSleepsIsWokenWhenPatienceHasPassedAgain) {
  word();
  c.push();
  turn();
  c.poll();
  c.push();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 0) << "its index has moved";
  pass(2 * kPatience);
  EXPECT_EQ(c.events.count, 1);
}

// The consumer armed the CQ, took the CQE at its next look, and waits for the event that an armed CQ owes it.
TEST_F(CompletionWatchTest, ACqeThatItsConsumerTookEarlyFiresToo) {
  word();
  c.push();
  turn();
  c.poll();
  word_of_cq();
  pass(kPatience);
  EXPECT_EQ(c.events.count, 0) << "it is awake";
  pass(2 * kPatience);
  EXPECT_EQ(c.events.count, 1);
  EXPECT_EQ(watch.next_deadline(), Instant::never());
}

TEST_F(CompletionWatchTest, ACqeThatWasTakenBeforeTheWordIsFoundFiresToo) {
  c.push();
  turn();
  c.poll();
  word_of_cq();
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

// An ARM for any CQE that is seen ends the watch of a CQE that the consumer took before.
TEST_F(CompletionWatchTest, AnArmThatIsSeenOwesNothingForCqesTakenBefore) {
  word();
  c.push();
  turn();
  c.poll();
  word();
  c.cq->arm(Arm::kAny);
  EXPECT_EQ(watch.next_deadline(), Instant::never());
  c.push();
  EXPECT_EQ(c.events.count, 1);
}

// The ARM lay in the page when the CQE came, or was stored after it. Only a look in between tells.
TEST_F(CompletionWatchTest, AnArmThatIsSeenLateFiresForACqeTakenSinceTheLookBefore) {
  const std::uint64_t look_before = watch.begin_look();
  c.push();
  c.poll();
  watch.begin_look();
  watch.on_word(context, c.cq.get(), look_before);
  c.cq->arm(Arm::kAny);
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, AnArmThatWasNotThereAtALookAfterTheCqeAsksForTheNextOne) {
  watch.begin_look();
  c.push();
  c.poll();
  const std::uint64_t look_before = watch.begin_look();
  watch.begin_look();
  watch.on_word(context, c.cq.get(), look_before);
  c.cq->arm(Arm::kAny);
  EXPECT_EQ(c.events.count, 0);
  c.push();
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, AConsumerThatPollsGetsNoEventAndCostsFewLooks) {
  consumer_polls(std::chrono::milliseconds(100));
  EXPECT_EQ(c.events.count, 0);
  std::uint32_t deadlines = 0;
  Instant last = watch.next_deadline();
  for (const Instant end = now + std::chrono::milliseconds(100); now < end;) {
    consumer_polls(microseconds(100));
    if (watch.next_deadline() != last) ++deadlines;
    last = watch.next_deadline();
  }
  EXPECT_LE(deadlines, 10u);
  EXPECT_EQ(c.events.count, 0);
}

TEST_F(CompletionWatchTest, TheEventOfAConsumerThatFallsAsleepIsLateByTheTimeThatItWasAwake) {
  word();
  consumer_polls(std::chrono::milliseconds(1));
  const Instant asleep = now;
  while (c.events.count == 0) pass(microseconds(10));
  EXPECT_LE(now - asleep, std::chrono::milliseconds(2));
}

TEST_F(CompletionWatchTest, AnUnaskedEventBeginsPatienceAnew) {
  for (int i = 0; i < 20; ++i) {
    word();
    c.push();
    turn();
    c.poll();
    pass(10 * kPatience);
    EXPECT_EQ(c.events.count, 2 * i + 1);
    EXPECT_EQ(time_to_event(), kPatience);
  }
}

TEST_F(CompletionWatchTest, AConsumerThatPollsAndPausesGetsAnEventOnlyInLongPauses) {
  consumer_polls(std::chrono::milliseconds(50));
  pass(2 * CompletionWatch::kPatienceMax);
  EXPECT_EQ(c.events.count, 1);
  for (int i = 0; i < 20; ++i) {
    consumer_polls(std::chrono::milliseconds(15));
    pass(CompletionWatch::kPatienceMax / 2);
  }
  EXPECT_EQ(c.events.count, 1);
}

TEST_F(CompletionWatchTest, ACqThatIsNeverSeenArmedGetsFewEventsInTheEnd) {
  for (int i = 1; i < CompletionWatch::kUnaskedMax; ++i) ASSERT_EQ(time_to_event(), kPatience) << i;
  EXPECT_EQ(time_to_event(), kPatience);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(time_to_event(), CompletionWatch::kPatienceMax);
  word();
  c.cq->arm(Arm::kAny);
  c.push();
  c.poll();
  EXPECT_EQ(time_to_event(), kPatience) << "its ARM was seen";
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
