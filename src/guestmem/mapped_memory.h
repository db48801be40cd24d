// MappedBytes: a limit for the guest memory that is mapped, for one adapter and for all adapters together.
// take() charges an account and the account that it is part of: both, or neither.
//
// A VMM can use the same sparse file for any number of maps. They cost the VMM nothing, but they use the
// daemon's address space. Bytes count until they are really unmapped, so the reaper's threads give them back.
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace pvrdma::guestmem {

// Twice the memory of the largest VM: when QEMU maps all memory again (a reboot), the old mappings may not be
// unmapped yet.
inline constexpr std::uint64_t kDefaultMappedBytes = 2ull << 40;
// For all adapters together: an eighth of the process's address space.
inline constexpr std::uint64_t kDefaultTotalMappedBytes = 16ull << 40;

// The limit for an adapter of a VM with this much memory. It has the factor of two for the same reason, and 1
// GiB for ROMs and flash.
constexpr std::uint64_t mapped_bytes_for(std::uint64_t vm_memory_bytes) {
  return 2 * vm_memory_bytes + (1ull << 30);
}

// kDefaultTotalMappedBytes, or half of what the process may map at all (RLIMIT_AS).
std::uint64_t default_total_mapped_bytes();

class MappedBytes {
 public:
  // Refusals name the account by `what`: "WHAT allows 5 GiB".
  MappedBytes(std::string what, std::uint64_t limit, std::shared_ptr<MappedBytes> part_of = nullptr)
      : what_(std::move(what)), limit_(limit), part_of_(std::move(part_of)) {}

  // Returns null if the bytes were taken. Otherwise it takes nothing and returns the account whose limit
  // forbids it.
  const MappedBytes* take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  const std::string& what() const { return what_; }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // Bytes already taken stay taken, even if they exceed the new limit.
  void set_limit(std::uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

 private:
  const std::string what_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> used_ = 0;
  const std::shared_ptr<MappedBytes> part_of_;
};

}  // namespace pvrdma::guestmem
