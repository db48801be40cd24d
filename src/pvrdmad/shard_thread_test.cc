#include "pvrdmad/shard_thread.h"

#include <array>
#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <vector>

#include "base/cores.h"
#include "shard/ask.h"

namespace pvrdma::daemon {
namespace {

using namespace std::chrono_literals;

struct Where {
  std::string name;
  std::vector<std::uint32_t> cores;
};

Where here() {
  std::array<char, 16> name{};
  ::pthread_getname_np(::pthread_self(), name.data(), name.size());
  cpu_set_t set;
  CPU_ZERO(&set);
  ::sched_getaffinity(0, sizeof(set), &set);
  Where where{name.data(), {}};
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) where.cores.push_back(core);
  }
  return where;
}

class ShardThreadTest : public testing::Test {
 protected:
  SteadyClock clock_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
};

TEST_F(ShardThreadTest, RunsTheLoopWhereItsMakerRuns) {
  const auto thread = ShardThread::create(0, *loop_, std::nullopt).value();
  thread->start();
  const Where shard = shard::ask(*loop_, 60s, here).value();
  EXPECT_EQ(shard.name, "shard-0");
  EXPECT_EQ(shard.cores, here().cores);
}

TEST_F(ShardThreadTest, HasTheNameOfItsShard) {
  const auto thread = ShardThread::create(3, *loop_, std::nullopt).value();
  thread->start();
  EXPECT_EQ(shard::ask(*loop_, 60s, here).value().name, "shard-3");
}

TEST_F(ShardThreadTest, RunsTheLoopOnItsCoreAlone) {
  const std::vector<std::uint32_t> before = here().cores;
  const std::uint32_t core = usable_cores().back();
  const auto thread = ShardThread::create(0, *loop_, core).value();
  thread->start();
  EXPECT_EQ(shard::ask(*loop_, 60s, here).value().cores, std::vector{core});
  EXPECT_EQ(here().cores, before) << "and nobody else is bound";
}

TEST_F(ShardThreadTest, RefusesACoreThatIsNotThere) {
  const auto thread = ShardThread::create(0, *loop_, 8191);
  ASSERT_FALSE(thread);
  EXPECT_EQ(thread.error().message,
            "dedicated_core = 8191 in [daemon]: cannot bind a thread to core 8191: Invalid argument");
}

TEST_F(ShardThreadTest, RunsNothingBeforeItsStart) {
  std::atomic<bool> ran = false;
  {
    const auto thread = ShardThread::create(0, *loop_, std::nullopt).value();
    ASSERT_TRUE(loop_->post({[&ran] { ran = true; }, "a test's"}));
  }
  EXPECT_FALSE(ran);
}

}  // namespace
}  // namespace pvrdma::daemon
