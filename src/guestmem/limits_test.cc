// What happens to guest memory when the process is at a limit of the kernel. Each test lowers a limit in a
// child process.
#include <cerrno>
#include <cstddef>
#include <gtest/gtest.h>
#include <seccomp.h>
#include <sys/mman.h>
#include <unistd.h>

#include "guestmem/address_space.h"
#include "guestmem/sigbus.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kBase = 1ull << 32;

// Touches the first and the last page of a file that was truncated, while the kernel refuses zeros for the
// whole of it, as it does when it does not overcommit. Exit code 0: both read as zeros.
[[noreturn]] void touch_what_has_vanished() {
  constexpr std::size_t kBytes = 256 << 20;
  const auto installed = install_sigbus_handler();
  TestRam ram(kBytes);
  AddressSpace memory;
  ram.map_into(memory, kBase);
  const std::byte* const last = memory.translate(GuestPhys(kBase + kBytes - kPageBytes), 1, Access::kRead);
  const std::byte* const first = memory.translate(GuestPhys(kBase), 1, Access::kRead);
  ram.truncate(0);
  const scmp_filter_ctx filter = ::seccomp_init(SCMP_ACT_ALLOW);
  const bool limited = ::seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOMEM), SCMP_SYS(mmap), 1,
                                          SCMP_A1(SCMP_CMP_GT, kPageBytes)) == 0 &&
                       ::seccomp_load(filter) == 0;
  const bool zeros = *first == std::byte{0} && *last == std::byte{0};
  ::_exit(installed && limited && zeros && memory.damaged() ? 0 : 1);
}

TEST(Limits, MemoryThatVanishesIsCoveredPageByPageIfTheKernelAllowsNoMore) {
  EXPECT_EXIT(touch_what_has_vanished(), ::testing::ExitedWithCode(0), "");
}

// The kernel merges mappings of one file whose addresses and offsets follow each other. To unmap the middle
// of such a mapping in slices takes one more mapping than the process may have. Exit code 0: the daemon would
// live.
[[noreturn]] void unmap_without_a_further_mapping() {
  constexpr std::size_t kRange = 64 << 20;
  constexpr std::size_t kRanges = 8;
  TestRam ram(kRanges * kRange);
  AddressSpace memory;
  bool good = true;
  for (std::size_t i = kRanges; i-- != 0;)
    good = good && memory.map(GuestPhys(kBase + i * kRange), kRange, ram.fd(), i * kRange, true, true);
  int rights = PROT_READ;  // neighbours with different rights are not merged
  while (::mmap(nullptr, kPageBytes, rights, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED)
    rights = rights == PROT_READ ? PROT_READ | PROT_WRITE : PROT_READ;
  for (std::size_t i = 1; i < kRanges - 1; ++i)
    good = good && memory.unmap(GuestPhys(kBase + i * kRange), kRange) == 0;
  ::_exit(good ? 0 : 1);
}

TEST(Limits, MemoryIsUnmappedIfTheProcessMayHaveNoFurtherMapping) {
  EXPECT_EXIT(unmap_without_a_further_mapping(), ::testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace pvrdma::guestmem
