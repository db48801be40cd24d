#include "base/cores.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <gtest/gtest.h>
#include <sched.h>

namespace pvrdma {
namespace {

std::vector<std::uint32_t> own_affinity() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  std::vector<std::uint32_t> cores;
  for (std::uint32_t core = 0; core < CPU_SETSIZE; ++core) {
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  }
  return cores;
}

TEST(Cores, AreDescribedAsRanges) {
  EXPECT_EQ(describe_cores({}), "");
  EXPECT_EQ(describe_cores({3}), "3");
  EXPECT_EQ(describe_cores({0, 1}), "0-1");
  EXPECT_EQ(describe_cores({0, 1, 2, 3, 8, 10, 11}), "0-3, 8, 10-11");
}

TEST(Cores, UsableAreThoseOfTheCpusetWhateverTheAffinity) {
  const auto usable = usable_cores();
  const auto before = own_affinity();
  ASSERT_FALSE(usable.empty());
  EXPECT_TRUE(std::includes(usable.begin(), usable.end(), before.begin(), before.end()));
  std::thread([&] {
    cpu_set_t one;
    CPU_ZERO(&one);
    CPU_SET(usable.front(), &one);
    ASSERT_EQ(::sched_setaffinity(0, sizeof(one), &one), 0);
    EXPECT_EQ(usable_cores(), usable);
    EXPECT_EQ(own_affinity(), std::vector{usable.front()}) << "who asks stays where it is";
  }).join();
  EXPECT_EQ(own_affinity(), before);
}

TEST(Cores, AThreadIsBoundToOne) {
  const auto before = own_affinity();
  std::atomic<bool> bound = false;
  std::vector<std::uint32_t> affinity;
  std::thread thread([&] {
    bound.wait(false);
    affinity = own_affinity();
  });
  const std::uint32_t core = usable_cores().back();
  EXPECT_TRUE(bind_to_core(thread, core));
  const auto nowhere = bind_to_core(thread, core + 4096);
  bound = true;
  bound.notify_one();
  thread.join();
  EXPECT_EQ(affinity, std::vector{core});
  EXPECT_EQ(own_affinity(), before) << "no other thread is";
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, EINVAL);
}

}  // namespace
}  // namespace pvrdma
