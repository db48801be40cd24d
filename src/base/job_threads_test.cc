#include "base/job_threads.h"

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <stop_token>

namespace pvrdma {
namespace {

TEST(JobThreadsTest, DoesEachJobOnAThreadOfItsOwn) {
  std::atomic<int> met = 0;
  const auto meet = [&met](const std::stop_token&) {
    ++met;
    while (met < 2) std::this_thread::yield();
  };
  JobThreads jobs("job");
  ASSERT_TRUE(jobs.start(meet));
  ASSERT_TRUE(jobs.start(meet));
  jobs.stop();
  EXPECT_EQ(met, 2);
}

TEST(JobThreadsTest, FreesWhatAJobHeldWhenItEnds) {
  const auto resource = std::make_shared<int>();
  JobThreads jobs("job");
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(jobs.start([resource](const std::stop_token&) {}));
    while (resource.use_count() > 1) std::this_thread::yield();
  }
}

TEST(JobThreadsTest, InterruptsWhatAJobWaitsFor) {
  std::mutex mutex;
  std::condition_variable woken;
  bool is_awake = false;
  JobThreads jobs("job");
  ASSERT_TRUE(jobs.start([&](const std::stop_token& stop) {
    const std::stop_callback wake(stop, [&] {
      const std::lock_guard lock(mutex);
      is_awake = true;
      woken.notify_one();
    });
    std::unique_lock lock(mutex);
    woken.wait(lock, [&] { return is_awake; });
  }));
  EXPECT_FALSE(jobs.is_stopping());
  jobs.stop();
  EXPECT_TRUE(is_awake);
}

TEST(JobThreadsTest, StartsNothingAfterAnInterrupt) {
  JobThreads jobs("job");
  jobs.interrupt();
  EXPECT_TRUE(jobs.is_stopping());
  bool has_run = false;
  const auto started = jobs.start([&has_run](const std::stop_token&) { has_run = true; });
  ASSERT_FALSE(started);
  EXPECT_EQ(started.error().code, ECANCELED);
  jobs.stop();
  EXPECT_FALSE(has_run);
}

// Jobs start and end while others are interrupted: for ThreadSanitizer.
TEST(JobThreadsTest, MayBeStoppedWhileOthersStart) {
  for (int round = 0; round < 20; ++round) {
    std::atomic<int> started = 0;
    std::atomic<int> done = 0;
    JobThreads jobs("job");
    std::thread starting([&] {
      while (jobs.start([&done](const std::stop_token&) { ++done; })) ++started;
    });
    while (started < 3) std::this_thread::yield();
    jobs.stop();
    starting.join();
    EXPECT_EQ(done, started);
  }
}

}  // namespace
}  // namespace pvrdma
