#include "shard/pace.h"

#include <gtest/gtest.h>

namespace pvrdma::shard {
namespace {

using namespace std::chrono_literals;

constexpr Duration kLongest = 50us;

// A shard whose work takes no time. It runs from work to work, with turns without work in between.
class PaceTest : public testing::Test {
 protected:
  PaceTest() { starts_with(true); }

  void starts_with(bool polls) {
    polls_ = polls;
    pace_.sleep(now_, now_, polls);
    pace_.worked(now_, now_);
  }

  // Work comes `pause` after the work before. Until then the shard waits as Pace says. True: it spun.
  bool work_after(Duration pause) {
    const Instant due = now_ + pause;
    const bool spun = pace_.spins(due);
    if (!spun) pace_.sleep(due, Instant::never(), polls_);
    pace_.worked(due, due);
    now_ = due;
    return spun;
  }
  void work_after(Duration pause, std::uint32_t times) {
    for (std::uint32_t i = 0; i < times; ++i) work_after(pause);
  }
  // The timed look of a shard that polls and has had no work for `pause`.
  Pace::Sleep look_after(Duration pause, Instant deadline = Instant::never()) {
    return pace_.sleep(now_ + pause, deadline, true);
  }

  bool polls_ = true;
  Pace pace_{{.longest_window = kLongest}};
  Instant now_{1s};
};

// --- The window of spins. ---

TEST_F(PaceTest, SpinsForTheLongestWindowAtFirst) {
  EXPECT_EQ(pace_.window(), kLongest);
  EXPECT_TRUE(pace_.spins(now_ + (kLongest - 1ns)));
  EXPECT_FALSE(pace_.spins(now_ + kLongest));
}

TEST_F(PaceTest, FollowsTheTimesAtWhichWorkEndsSpins) {
  work_after(5us);
  EXPECT_EQ(pace_.window(), 45us) << "not at once";
  work_after(5us, 100);
  EXPECT_EQ(pace_.window(), 20us) << "four times as long as those spins took";
  work_after(10us);
  EXPECT_EQ(pace_.window(), 40us) << "up again at once";
  work_after(39us);
  EXPECT_EQ(pace_.window(), kLongest) << "never longer than the longest";
}

TEST_F(PaceTest, SpinsLessAfterShortPausesThatASleepEnded) {
  EXPECT_FALSE(work_after(60us));
  EXPECT_EQ(pace_.window(), 35us);
  work_after(999us, 100);
  EXPECT_EQ(pace_.window(), Pace::kShortestWindow);
}

TEST_F(PaceTest, SpinsForAnnouncedWorkAsAdaptiveSpinSays) {
  starts_with(false);
  work_after(60us, AdaptiveSpin::kMissesMax - 1);
  EXPECT_EQ(pace_.window(), kLongest);
  work_after(5us, 100);
  work_after(60us, AdaptiveSpin::kMissesMax - 1);
  EXPECT_EQ(pace_.window(), kLongest) << "a spin that paid forgives";
  work_after(60us);
  EXPECT_EQ(pace_.window(), 0us);
  work_after(200us, 2 * AdaptiveSpin::kShortSleepsFirst);
  EXPECT_EQ(pace_.window(), kLongest);
}

TEST_F(PaceTest, WhatPaysOneKindOfWorkSaysNothingOfTheOther) {
  work_after(500us, 100);
  ASSERT_EQ(pace_.window(), Pace::kShortestWindow);
  starts_with(false);
  EXPECT_EQ(pace_.window(), kLongest);
  work_after(500us, AdaptiveSpin::kMissesMax);
  ASSERT_EQ(pace_.window(), 0us);
  starts_with(true);
  EXPECT_EQ(pace_.window(), Pace::kShortestWindow);
}

TEST_F(PaceTest, LongPausesSayNothingOfSpins) {
  work_after(1ms, 1000);
  EXPECT_EQ(pace_.window(), kLongest);
}

TEST_F(PaceTest, TriesTheLongestWindowAgainNowAndThen) {
  work_after(100us, Pace::kShortPausesPerTry - 1);
  EXPECT_EQ(pace_.window(), Pace::kShortestWindow);
  work_after(1ms, 1000);
  EXPECT_EQ(pace_.window(), Pace::kShortestWindow) << "long pauses do not count";
  work_after(100us);
  EXPECT_EQ(pace_.window(), kLongest);
  work_after(100us);
  EXPECT_EQ(pace_.window(), 35us) << "once";
  // A longest window that pays is kept.
  work_after(100us, Pace::kShortPausesPerTry - 1);
  work_after(40us, 100);
  EXPECT_EQ(pace_.window(), kLongest);
}

TEST_F(PaceTest, WorkInEveryTurnChangesNothing) {
  Instant began = now_;
  for (int i = 0; i < 100; ++i) {
    EXPECT_TRUE(pace_.spins(began));
    pace_.worked(began, began + 3us);
    began = began + 3us;
  }
  EXPECT_EQ(pace_.window(), kLongest);
}

// The duration of a turn's work is not part of the pause before it.
TEST_F(PaceTest, CountsThePauseUntilTheWorkBegins) {
  const Instant began = now_ + 2us;
  ASSERT_TRUE(pace_.spins(began));
  pace_.worked(began, began + 5ms);
  EXPECT_EQ(pace_.window(), 45us);
  EXPECT_TRUE(pace_.spins(began + 5ms + 44us)) << "the next pause begins when the work ends";
  EXPECT_FALSE(pace_.spins(began + 5ms + 45us));
}

// Two VMs exchange messages at the pace of the shard's own wake-ups. The shard learns to sleep between them.
TEST_F(PaceTest, APingPongThatPaysEverySecondTimeKeepsNoLongSpin) {
  for (int i = 0; i < 1000; ++i) {
    work_after(2us);
    work_after(60us);
  }
  EXPECT_LE(pace_.window(), 8us);
}

TEST(Pace, NeverSpinsOrNeverSleepsWhenToldSo) {
  Pace never({.longest_window = 0us});
  Instant now{1s};
  for (std::uint32_t i = 0; i < 2 * Pace::kShortPausesPerTry; ++i) {
    ASSERT_FALSE(never.spins(now));
    never.sleep(now, Instant::never(), false);
    never.worked(now, now);
  }
  EXPECT_EQ(never.window(), 0us);
  Pace always({.longest_window = Duration::max()});
  EXPECT_TRUE(always.spins(Instant{24h}));
}

// --- The length of a sleep. ---

TEST_F(PaceTest, SleepsUntilTheDeadlineOrUntilSomethingIsAnnounced) {
  const Pace::Sleep for_ever = pace_.sleep(now_ + 1s, Instant::never(), false);
  EXPECT_EQ(for_ever.longest, Duration::max());
  EXPECT_FALSE(for_ever.timed_look);
  EXPECT_EQ(pace_.sleep(now_ + 1s, now_ + 3s, false).longest, 2s);
  EXPECT_EQ(pace_.sleep(now_ + 1s, now_ + 1s, false).longest, 0s);
  EXPECT_EQ(pace_.sleep(now_ + 1s, Instant{}, false).longest, 0s) << "past";
}

TEST_F(PaceTest, LooksEverMoreRarelyWhileSomethingPolls) {
  EXPECT_EQ(look_after(0us).longest, 20us) << "less costs more than it gives";
  EXPECT_EQ(look_after(160us).longest, 20us);
  EXPECT_EQ(look_after(800us).longest, 100us) << "an eighth of the pause so far";
  EXPECT_EQ(look_after(32ms).longest, 4ms);
  EXPECT_EQ(look_after(24h).longest, 4ms) << "first messages do not wait for ever";
  EXPECT_TRUE(look_after(24h).timed_look);
}

TEST_F(PaceTest, ADeadlineBeforeTheNextLookIsKept) {
  const Pace::Sleep sleep = look_after(32ms, now_ + 33ms);
  EXPECT_EQ(sleep.longest, 1ms);
  EXPECT_FALSE(sleep.timed_look);
  EXPECT_EQ(look_after(32ms, now_ + 40ms).longest, 4ms);
}

// A deadline that has passed causes no sleep, and its work does not shorten the window.
TEST_F(PaceTest, APassedDeadlineIsPartOfTheSpin) {
  pace_.sleep(now_ + 10us, now_ + 10us, true);
  pace_.worked(now_ + 10us, now_ + 10us);
  EXPECT_EQ(pace_.window(), 45us);
}

// Empty looks do not end the pause: only the time without work counts.
TEST_F(PaceTest, EmptyLooksAreOnePause) {
  look_after(100us);
  look_after(500us);
  pace_.worked(now_ + 600us, now_ + 600us);
  EXPECT_EQ(pace_.window(), 35us) << "one short pause";
}

TEST(Pace, NeverSleepsWhilePollingWhenToldSo) {
  Pace pace({.longest_window = kLongest, .never_sleeps_while_polling = true});
  const Instant now{24h};
  EXPECT_EQ(pace.sleep(now, Instant::never(), true).longest, 0s);
  EXPECT_EQ(pace.sleep(now, now + 1ms, true).longest, 0s);
  EXPECT_EQ(pace.sleep(now, Instant::never(), false).longest, Duration::max());
}

}  // namespace
}  // namespace pvrdma::shard
