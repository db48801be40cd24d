// After a guest has left, the memory that the daemon used for it returns to the system. The test measures the
// anonymous memory of its process, so it is a separate program.
#include <fstream>
#include <string>
#include <vector>

#include "gtest/gtest.h"

#include "support/must.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

constexpr std::uint64_t kMib = 1ULL << 20;
constexpr std::uint64_t kGib = 1ULL << 30;

std::uint64_t anonymous_kib() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("RssAnon:")) return std::stoull(line.substr(8));
  }
  ADD_FAILURE() << "the kernel does not tell RssAnon";
  return 0;
}

TestbenchOptions sparse_guest() {
  TestbenchOptions options{.adapter_count = 1};
  options.driver.ram.size_bytes = 4 * kGib;  // only a little of it is used
  return options;
}

class MemoryReturn : public ::testing::Test {
 protected:
  // Registers one page in MRs of `mr_bytes` until the adapter has no more room, and dies. Returns how much
  // the process had grown before that.
  std::uint64_t register_and_die(std::uint64_t mr_bytes) {
    const std::uint64_t before = anonymous_kib();
    std::uint64_t grown = 0;
    {
      auto pd = must(driver::ProtectionDomain::create(bench_.device(0).kernel()));
      auto page = must(bench_.device(0).ram().allocate(4096));
      const std::vector<driver::GuestPhys> pages(mr_bytes / 4096, page->pages()[0]);
      std::vector<std::unique_ptr<driver::MemoryRegion>> mrs;
      while (auto mr = driver::MemoryRegion::of_pages(*pd, {.length = mr_bytes, .pages = pages})) {
        mrs.push_back(std::move(*mr));
      }
      EXPECT_EQ(mrs.size(), 16 * kGib / mr_bytes) << "four times the RAM";
      grown = anonymous_kib() - before;
      bench_.kill(0);
    }
    bench_.forget_device(0);
    bench_.run();  // the engine returns memory turn by turn
    return grown;
  }

  Testbench bench_{sparse_guest()};
};

TEST_F(MemoryReturn, a_guest_that_dies_leaves_nothing_of_its_page_lists) {
  register_and_die(kGib);  // for warming up: malloc() adapts to the size of large blocks
  const std::uint64_t start = anonymous_kib();
  for (int round = 0; round < 3; ++round) {
    const std::uint64_t grown = register_and_die(kGib);
    EXPECT_GT(grown, 30 * kMib / 1024) << "16 GiB named cost 32 MiB";
    EXPECT_LT(anonymous_kib(), start + 4 * kMib / 1024) << "round " << round;
  }
}

TEST_F(MemoryReturn, nor_of_many_small_ones) {
  register_and_die(kMib);
  const std::uint64_t start = anonymous_kib();
  for (int round = 0; round < 3; ++round) {
    EXPECT_GT(register_and_die(kMib), 30 * kMib / 1024);
    EXPECT_LT(anonymous_kib(), start + 4 * kMib / 1024) << "round " << round;
  }
}

}  // namespace
}  // namespace pvrdma::test
