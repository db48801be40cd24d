#include "shard/loop.h"

#include <atomic>
#include <functional>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "shard/ask.h"
#include "support/log_of.h"
#include "support/manual_clock.h"

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;
using ::testing::HasSubstr;

// A shard on its own thread. Its objects are destroyed before the loop, as main() does.
class LoopTest : public testing::Test {
 protected:
  void start(const LoopConfig& config) { loop_ = Loop::create(config, clock_).value(); }
  void run_in_thread() {
    thread_ = std::thread([this] { loop_->run(); });
  }
  void stop() {
    loop_->stop();
    thread_.join();
  }

  SteadyClock clock_;
  std::unique_ptr<Loop> loop_;
  std::thread thread_;
};

struct Scripted final : Pollable {
  std::function<bool(Instant)> on_run = [](Instant) { return false; };
  std::function<void(Instant)> on_due = [](Instant) {};
  std::function<bool()> on_sleep;  // what may_sleep() answers; empty: true
  Instant deadline = Instant::never();
  int runs = 0;

  bool run(Instant now) override {
    ++runs;
    return on_run(now);
  }
  void on_time(Instant now) override {
    deadline = Instant::never();
    on_due(now);
  }
  Instant next_deadline() const override { return deadline; }
  bool polls() const override { return polling; }
  bool may_sleep() override { return !on_sleep || on_sleep(); }
  std::string what() const override { return name; }
  std::string name = "a pollable";
  bool polling = false;
};

struct Counter final : FdHandler {
  explicit Counter(std::function<void()> call) : then(std::move(call)) {}
  std::function<void()> then;
  int calls = 0;
  std::string what() const override { return "adapter web1"; }
  void on_fd_ready(int fd, Readiness) override {
    std::uint64_t value = 0;
    EXPECT_EQ(::read(fd, &value, sizeof(value)), static_cast<ssize_t>(sizeof(value)));
    ++calls;
    then();
  }
};

TEST_F(LoopTest, RunsTasksOfManyThreadsEachOnceAndInTheThreadsOrder) {
  constexpr int kThreads = 4;
  constexpr int kTasks = 2000;
  start({.mailbox_tasks = 64});
  run_in_thread();
  std::vector<std::vector<int>> seen(kThreads);
  std::vector<std::thread> posters;
  for (int t = 0; t < kThreads; ++t) {
    posters.emplace_back([&, t] {
      for (int i = 0; i < kTasks; ++i) {
        while (!loop_->post([&seen, t, i] { seen[static_cast<std::size_t>(t)].push_back(i); }))
          std::this_thread::yield();
      }
    });
  }
  for (auto& poster : posters) poster.join();
  stop();
  for (const auto& of_thread : seen) {
    ASSERT_EQ(of_thread.size(), std::size_t{kTasks});
    for (int i = 0; i < kTasks; ++i) ASSERT_EQ(of_thread[static_cast<std::size_t>(i)], i);
  }
  EXPECT_EQ(loop_->counters().tasks, std::uint64_t{kThreads * kTasks});
}

TEST_F(LoopTest, StopsUnderLoadAndRunsExactlyTheTasksItAccepted) {
  start({.mailbox_tasks = 128});
  run_in_thread();
  std::atomic<int> accepted{0};
  std::atomic<bool> stopped{false};
  int run = 0;
  std::vector<std::thread> posters;
  for (int t = 0; t < 3; ++t) {
    posters.emplace_back([&] {
      while (!stopped.load()) {
        if (loop_->post([&run] { ++run; })) {
          accepted.fetch_add(1);
        } else {
          std::this_thread::yield();
        }
      }
    });
  }
  while (accepted.load() == 0) std::this_thread::yield();
  std::this_thread::sleep_for(20ms);
  stop();
  EXPECT_FALSE(loop_->post([] {})) << "nothing is accepted once run() has returned";
  stopped.store(true);
  for (auto& poster : posters) poster.join();
  EXPECT_GT(run, 0);
  EXPECT_EQ(run, accepted.load());
}

TEST_F(LoopTest, StopBeforeRunReturnsAtOnce) {
  start({});
  loop_->stop();
  loop_->run();
  EXPECT_EQ(loop_->counters().turns, 0U);
}

TEST_F(LoopTest, WakesForAnFdWhileAsleep) {
  start({.spin = 0us});
  const Fd event(::eventfd(0, EFD_NONBLOCK));
  Counter handler([this] { loop_->stop(); });
  ASSERT_TRUE(loop_->watch(event.get(), Interest::kRead, handler));
  run_in_thread();
  std::this_thread::sleep_for(5ms);
  const std::uint64_t one = 1;
  ASSERT_EQ(::write(event.get(), &one, sizeof(one)), static_cast<ssize_t>(sizeof(one)));
  thread_.join();
  EXPECT_EQ(handler.calls, 1);
  loop_->unwatch(event.get());
}

TEST_F(LoopTest, FiresATimerNotBeforeItsDeadline) {
  start({.spin = 0us});
  Scripted pollable;
  const Instant deadline = clock_.now() + 3ms;
  Instant fired{};
  pollable.deadline = deadline;
  pollable.on_due = [&](Instant now) {
    fired = now;
    loop_->stop();
  };
  loop_->add(pollable);
  loop_->run();
  EXPECT_GE(fired, deadline);
  loop_->remove(pollable);
}

TEST_F(LoopTest, ComesBackWithoutWaitingWhileThereIsMoreToDo) {
  start({.spin = 0us});
  Scripted pollable;
  pollable.on_run = [&](Instant) {
    if (pollable.runs == 1000) loop_->stop();
    return pollable.runs < 1000;
  };
  loop_->add(pollable);
  loop_->run();
  EXPECT_EQ(pollable.runs, 1000);
  EXPECT_EQ(loop_->counters().sleeps, 0U);
  loop_->remove(pollable);
}

TEST_F(LoopTest, SleepsAtOnceAfterADescriptorThatLeftNothingToDo) {
  start({.spin = 0us});
  const Fd event(::eventfd(1, EFD_NONBLOCK));
  Scripted pollable;
  loop_->add(pollable);
  Counter handler([&] { pollable.deadline = clock_.now() + 5ms; });
  ASSERT_TRUE(loop_->watch(event.get(), Interest::kRead, handler));
  pollable.on_due = [&](Instant) { loop_->stop(); };
  loop_->run();
  EXPECT_EQ(loop_->counters().turns, 2U) << "the descriptor's and the deadline's";
  EXPECT_EQ(loop_->counters().sleeps, 1U);
  loop_->unwatch(event.get());
  loop_->remove(pollable);
}

TEST_F(LoopTest, EveryPollableComesFirstInTurn) {
  start({.spin = 0us});
  constexpr std::size_t kPollables = 3;
  std::vector<std::size_t> order;
  std::vector<Scripted> pollables(kPollables);
  for (std::size_t i = 0; i < kPollables; ++i) {
    pollables[i].on_run = [&, i](Instant) {
      order.push_back(i);
      if (order.size() == kPollables * kPollables) loop_->stop();
      return true;
    };
    loop_->add(pollables[i]);
  }
  loop_->run();
  ASSERT_EQ(order.size(), kPollables * kPollables);
  std::vector<int> firsts(kPollables);
  for (std::size_t turn = 0; turn < kPollables; ++turn) ++firsts[order[turn * kPollables]];
  EXPECT_EQ(firsts, std::vector<int>(kPollables, 1));
  for (Scripted& pollable : pollables) loop_->remove(pollable);
}

// --- Turns that delay everything else, with a manual clock. ---

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

TEST_F(LoopTest, ALongTurnIsNoticedWhileTheLoopRunsItself) {
  start({.spin = 0us});
  ASSERT_TRUE(loop_->post({[] { std::this_thread::sleep_for(15ms); }, "sleeping"}));
  ASSERT_TRUE(loop_->post([&] { loop_->stop(); }));
  loop_->run();
  EXPECT_EQ(loop_->counters().long_turns, 1U);
  EXPECT_GE(loop_->counters().long_turns_us, 15'000U);
  EXPECT_LT(loop_->counters().long_turns_us, 60'000'000U) << "what was before the loop is no part of it";
  EXPECT_LT(loop_->counters().long_turns_cpu_us, 10'000U) << "it slept";
}

TEST_F(LoopTest, ALongTurnOfWorkIsKnownAsWork) {
  start({.spin = 0us});
  ASSERT_TRUE(loop_->post({[&] {
                             const Duration before = clock_.thread_cpu();
                             while (clock_.thread_cpu() - before < 15ms) {
                             }
                           },
                           "working"}));
  ASSERT_TRUE(loop_->post([&] { loop_->stop(); }));
  loop_->run();
  EXPECT_EQ(loop_->counters().long_turns, 1U);
  EXPECT_GE(loop_->counters().long_turns_cpu_us, 15'000U);
  EXPECT_LE(loop_->counters().long_turns_cpu_us, loop_->counters().long_turns_us);
}

// No event wakes the loop here: only the refusals make it turn.
TEST_F(LoopTest, TurnsAgainUntilEachPollableMaySleep) {
  start({.spin = 0us});
  Scripted late;
  std::promise<int> slept;
  late.on_sleep = [&] {
    if (late.runs < 3) return false;
    if (late.runs == 3) slept.set_value(late.runs);
    return true;
  };
  loop_->add(late);
  run_in_thread();
  EXPECT_EQ(slept.get_future().get(), 3);
  stop();
  loop_->remove(late);
}

TEST_F(LoopTest, AnIdleShardSleeps) {
  start({.spin = 50us});
  run_in_thread();
  std::this_thread::sleep_for(20ms);
  const auto sleeps = [&] { return ask(*loop_, 1min, [&] { return loop_->counters().sleeps; }).value(); };
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  do {  // a busy machine may delay the sleep
    before = sleeps();
    std::this_thread::sleep_for(50ms);
    after = sleeps();
  } while (after == before);
  stop();
  // The second task woke the one sleep that began after the first task.
  EXPECT_EQ(after, before + 1);
}

TEST_F(LoopTest, ComesBackByItselfWhileSomethingPolls) {
  start({.spin = 0us});
  Scripted pollable;
  Scripted quiet;
  loop_->add(pollable);
  loop_->add(quiet);
  pollable.polling = true;
  pollable.on_run = [&](Instant) {
    if (pollable.runs == 10) loop_->stop();
    return false;
  };
  loop_->run();
  EXPECT_EQ(loop_->counters().timed_looks, 9U);
  EXPECT_EQ(loop_->counters().sleeps, 0U);
  loop_->remove(pollable);
  loop_->remove(quiet);
}

TEST_F(LoopTest, SleepsAgainWhenNothingPollsAnyMore) {
  start({.spin = 0us});
  Scripted pollable;
  loop_->add(pollable);
  pollable.polling = true;
  pollable.on_run = [&](Instant now) {
    if (pollable.runs == 5) {
      pollable.polling = false;
      pollable.deadline = now + 5ms;
    }
    return false;
  };
  pollable.on_due = [&](Instant) { loop_->stop(); };
  loop_->run();
  EXPECT_EQ(loop_->counters().timed_looks, 4U);
  EXPECT_EQ(loop_->counters().sleeps, 1U) << "until the deadline";
  loop_->remove(pollable);
}

TEST_F(LoopTest, NeverSleepsWhilePollingOnACoreOfItsOwn) {
  start({.spin = 0us, .never_sleeps_while_polling = true});
  Scripted pollable;
  loop_->add(pollable);
  pollable.polling = true;
  pollable.on_run = [&](Instant) {
    if (pollable.runs == 10000) loop_->stop();
    return false;
  };
  loop_->run();
  EXPECT_EQ(loop_->counters().timed_looks, 0U);
  EXPECT_EQ(loop_->counters().sleeps, 0U);
  loop_->remove(pollable);
}

TEST_F(LoopTest, PollingModeNeverSleeps) {
  start({.spin = Duration::max()});
  Scripted pollable;
  pollable.on_run = [&](Instant) {
    if (pollable.runs == 10000) loop_->stop();
    return false;
  };
  loop_->add(pollable);
  loop_->run();
  EXPECT_EQ(loop_->counters().sleeps, 0U);
  loop_->remove(pollable);
}

}  // namespace
}  // namespace pvrdma::shard
