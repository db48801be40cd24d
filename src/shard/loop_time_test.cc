// What the loop does with the time, with a manual clock: turns that delay everything else, sleeps, and how
// often it asks the kernel.
#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/eventfd.h>
#include <unistd.h>
#include <vector>

#include "shard/loop_fixture.h"
#include "support/log_of.h"
#include "support/manual_clock.h"

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

class LongTurnTest : public testing::Test {
 protected:
  // The log's lines about one turn.
  std::string turn() {
    return test::log_of([this] { loop_->turn(0ms); });
  }
  void make_readable(const Fd& event) {
    const std::uint64_t one = 1;
    ASSERT_EQ(::write(event.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  }

  test::ManualClock clock_;
  std::unique_ptr<Loop> loop_ = Loop::create({.shard = 3}, clock_).value();
};

TEST(Sleep, IsCountedUntilTheLoopWakesUp) {
  const test::ManualClock clock(3ms);  // so long is a sleep
  const auto loop = Loop::create({}, clock).value();
  loop->turn(0ms);
  EXPECT_EQ(loop->counters().asleep_us, 0U);
  loop->turn(1ms);
  EXPECT_EQ(loop->counters().asleep_us, 3000U);
  loop->turn(1ms);
  EXPECT_EQ(loop->counters().asleep_us, 6000U);
}

TEST(Sleep, ShowsHowBusyTheLastSecondWas) {
  test::ManualClock clock(300ms);  // a turn with a sleep reads it four times, one without three times
  const auto loop = Loop::create({}, clock).value();
  EXPECT_EQ(loop->busy_percent(), 0U) << "no second is over";
  for (int i = 0; i < 2; ++i) {
    loop->turn(1ms);
    EXPECT_EQ(loop->busy_percent(), 75U) << "300 of 1200 ms were a sleep";
  }
  for (int i = 0; i < 2; ++i) loop->turn(0ms);
  EXPECT_EQ(loop->busy_percent(), 100U);
  clock.advance(4s);
  loop->turn(1ms);
  EXPECT_EQ(loop->busy_percent(), 93U) << "300 of 4600 ms";
}

TEST_F(LongTurnTest, IsCountedAndSaysWhoseDescriptorItWas) {
  const Fd slow(::eventfd(0, EFD_NONBLOCK));
  const Fd quick(::eventfd(0, EFD_NONBLOCK));
  Duration takes = 9ms;
  Counter slow_handler([&] { clock_.advance(takes); });
  Counter quick_handler([] {});
  ASSERT_TRUE(loop_->watch(quick.get(), Interest::kRead, quick_handler));
  ASSERT_TRUE(loop_->watch(slow.get(), Interest::kRead, slow_handler));
  make_readable(slow);
  EXPECT_EQ(turn(), "");
  EXPECT_EQ(loop_->counters().long_turns, 0U);

  takes = 23ms;
  make_readable(slow);
  make_readable(quick);
  EXPECT_THAT(
      turn(),
      HasSubstr("shard-3: its adapters waited 23.0 ms for one turn, 23.0 ms of them for a descriptor of "
                "adapter web1"));
  EXPECT_EQ(loop_->counters().long_turns, 1U);
  EXPECT_EQ(loop_->counters().long_turns_us, 23'000U);
  EXPECT_EQ(turn(), "") << "the next turn is another one";
  loop_->unwatch(slow.get());
  loop_->unwatch(quick.get());
}

TEST_F(LongTurnTest, SaysWhichTaskItWas) {
  ASSERT_TRUE(loop_->post({[&] { clock_.advance(2ms); }, "counting"}));
  ASSERT_TRUE(loop_->post({[&] { clock_.advance(30ms); }, "taking a snapshot"}));
  ASSERT_TRUE(loop_->post([] {}));
  EXPECT_THAT(turn(), HasSubstr("waited 32.0 ms for one turn, 30.0 ms of them in taking a snapshot"));
}

TEST_F(LongTurnTest, SaysInWhoseTurnItWas) {
  std::vector<Scripted> pollables(3);
  for (std::size_t i = 0; i < pollables.size(); ++i) {
    pollables[i].name = "adapter " + std::to_string(i);
    loop_->add(pollables[i]);
  }
  pollables[1].on_run = [&](Instant) {
    clock_.advance(15ms);
    return true;
  };
  EXPECT_THAT(turn(), HasSubstr("15.0 ms of them in the turn of adapter 1"));
  // A Pollable that has nothing more to do. The second time, the log names it.
  pollables[1].on_run = [&](Instant) {
    clock_.advance(15ms);
    return false;
  };
  EXPECT_THAT(turn(), HasSubstr("15.0 ms of them among 3 with no more to do"));
  EXPECT_THAT(turn(), HasSubstr("15.0 ms of them in the turn of adapter 1"));
  for (Scripted& pollable : pollables) loop_->remove(pollable);
}

TEST_F(LongTurnTest, TellsWorkFromWaiting) {
  Scripted pollable;
  pollable.name = "adapter web1";
  pollable.on_run = [&](Instant) {
    clock_.work(12ms);
    clock_.advance(20ms);
    return true;
  };
  loop_->add(pollable);
  clock_.work(5s);  // before the turn
  EXPECT_THAT(turn(),
              HasSubstr("shard-3: its adapters waited 32.0 ms for one turn, 32.0 ms of them in the turn of "
                        "adapter web1; the shard ran 12.0 ms"));
  EXPECT_EQ(loop_->counters().long_turns_cpu_us, 12'000U);
  EXPECT_THAT(turn(), HasSubstr("the shard ran 12.0 ms"));
  EXPECT_EQ(loop_->counters().long_turns_cpu_us, 24'000U);
  loop_->remove(pollable);
}

TEST_F(LongTurnTest, TheCpuClockIsReadOnceAMillisecondAtMost) {
  Scripted pollable;
  pollable.on_run = [&](Instant) {
    clock_.work(100us);
    return true;
  };
  loop_->add(pollable);
  for (int i = 0; i < 1000; ++i) loop_->turn(0ms);
  EXPECT_LE(clock_.cpu_reads(), 101U);
  pollable.on_run = [&](Instant) {
    clock_.work(15ms);
    return true;
  };
  EXPECT_THAT(turn(), HasSubstr("the shard ran 15.0 ms")) << "the last reading was less than a turn before";
  loop_->remove(pollable);
}

// A busy machine often takes a millisecond from a turn. Finding out which adapter was hit would cost more
// than that.
TEST_F(LongTurnTest, OnlyAfterALongTurnIsTheClockReadForEachAdapter) {
  std::vector<Scripted> pollables(10);
  for (Scripted& pollable : pollables) loop_->add(pollable);
  const auto reads = [&] {
    const std::uint64_t before = clock_.reads();
    loop_->turn(0ms);
    return clock_.reads() - before;
  };
  const std::uint64_t few = reads();
  Duration takes = 9ms;
  pollables[3].on_run = [&](Instant) {
    clock_.advance(std::exchange(takes, 0ms));
    return false;
  };
  EXPECT_EQ(reads(), few);
  EXPECT_EQ(reads(), few);
  takes = 10ms;
  EXPECT_EQ(reads(), few);
  EXPECT_EQ(reads(), few + pollables.size());
  for (Scripted& pollable : pollables) loop_->remove(pollable);
}

// The kernel is asked for an always-ready descriptor in each turn, unless most turns only look at memory.
TEST_F(LongTurnTest, WhileSomethingPollsDescriptorsAreAskedAfterEveryTwoMicroseconds) {
  constexpr int kTurns = 2000;
  const auto calls_in_turns = [&](bool polling) {
    loop_ = Loop::create({.spin = 0us, .never_sleeps_while_polling = true}, clock_).value();
    const Fd event(::eventfd(1, EFD_CLOEXEC));
    Counter counter([&] { make_readable(event); });
    EXPECT_TRUE(loop_->watch(event.get(), Interest::kRead, counter));
    Scripted pollable;
    pollable.polling = polling;
    pollable.on_run = [&](Instant) {
      clock_.advance(100ns);
      if (pollable.runs == kTurns) loop_->stop();
      return false;
    };
    loop_->add(pollable);
    loop_->run();
    loop_->remove(pollable);
    loop_->unwatch(event.get());
    return counter.calls;
  };
  EXPECT_EQ(calls_in_turns(false), kTurns);
  EXPECT_NEAR(calls_in_turns(true), kTurns / 20, 2);
}

TEST_F(LongTurnTest, AfterAFindInMemoryDescriptorsAreAskedAfterEveryTwoMicrosecondsForAWhile) {
  const Fd event(::eventfd(1, EFD_CLOEXEC));
  Counter counter([&] { make_readable(event); });
  ASSERT_TRUE(loop_->watch(event.get(), Interest::kRead, counter));
  const auto calls_in_turns_of_50us = [&] {
    const int before = counter.calls;
    for (int i = 0; i < 500; ++i) {
      clock_.advance(100ns);
      loop_->turn(0ms);
    }
    return counter.calls - before;
  };
  EXPECT_EQ(calls_in_turns_of_50us(), 500);
  loop_->found_in_memory(clock_.now());
  EXPECT_NEAR(calls_in_turns_of_50us(), 25, 2);
  EXPECT_EQ(calls_in_turns_of_50us(), 500);
  loop_->unwatch(event.get());
}

// Each reading of the clock takes `per_read`, so a question does, too: one follows it. Returns the most turns
// that pass until a descriptor is noticed which becomes ready long after the last one.
int turns_until_noticed(Duration per_read, Duration turn_takes) {
  test::ManualClock clock(per_read);
  const auto loop = Loop::create({}, clock).value();
  const Fd event(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  Counter counter([] {});
  EXPECT_TRUE(loop->watch(event.get(), Interest::kRead, counter));
  const auto turn = [&] {
    loop->found_in_memory(clock.now());
    clock.advance(turn_takes);
    loop->turn(0ms);
  };
  int most = 0;
  for (int phase = 0; phase < 20; ++phase) {
    clock.advance(2ms);
    for (int i = 0; i < 100 + phase; ++i) turn();
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(event.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
    int turns = 0;
    for (const int before = counter.calls; counter.calls == before; ++turns) turn();
    most = std::max(most, turns);
  }
  loop->unwatch(event.get());
  return most;
}

TEST(Loop, WhereAskingCostsMuchTheKernelIsAskedLessOften) {
  EXPECT_EQ(turns_until_noticed(0us, 4us), 1);
  EXPECT_EQ(turns_until_noticed(1us, 0us), 2) << "a turn of 4 us, and 8 us between two questions";
  EXPECT_EQ(turns_until_noticed(100us, 0us), 1) << "16 us at most, however much it costs";
}

TEST_F(LongTurnTest, SleepIsNoPartOfIt) {
  Scripted pollable;
  pollable.on_run = [&](Instant) {
    clock_.advance(4ms);
    return false;
  };
  loop_->add(pollable);
  for (int i = 0; i < 10; ++i) {
    clock_.advance(1s);  // between turns
    EXPECT_EQ(turn(), "");
  }
  EXPECT_EQ(loop_->counters().long_turns, 0U);
  loop_->remove(pollable);
}

TEST_F(LongTurnTest, FillsNoLog) {
  Scripted pollable;
  pollable.on_run = [&](Instant) {
    clock_.advance(20ms);
    return false;
  };
  loop_->add(pollable);
  int lines = 0;
  for (int i = 0; i < 1000; ++i) lines += turn().empty() ? 0 : 1;  // 20 s
  EXPECT_LE(lines, 20);
  EXPECT_EQ(loop_->counters().long_turns, 1000U);
  loop_->remove(pollable);
}

}  // namespace
}  // namespace pvrdma::shard
