#include "shard/loop.h"

#include <atomic>
#include <future>
#include <gtest/gtest.h>
#include <sys/eventfd.h>
#include <thread>
#include <unistd.h>
#include <vector>

#include "shard/ask.h"
#include "shard/loop_fixture.h"

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;

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
