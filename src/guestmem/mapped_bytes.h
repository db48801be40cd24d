// MappedBytes: how much guest memory may be mapped, by one adapter and by all of them together. An account
// takes from itself and from the one it is part of, both or neither.
//
// A VMM can name the same sparse file in any number of maps: they cost it nothing, and the daemon its address
// space. Bytes count until they are really unmapped, so they are given back on the reaper's threads.
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>

namespace pvrdma::guestmem {

// Twice the memory of the largest VM: when QEMU maps all of it anew (a reboot), the old maps may still be on
// their way out.
inline constexpr std::uint64_t kDefaultMappedBytes = 2ull << 40;
// Of all adapters; an eighth of the address space there is.
inline constexpr std::uint64_t kDefaultTotalMappedBytes = 16ull << 40;

// What an adapter of a VM with that much memory may map, for the same reason; and room for ROMs and flash.
constexpr std::uint64_t mapped_bytes_for(std::uint64_t vm_memory_bytes) {
  return 2 * vm_memory_bytes + (1ull << 30);
}

// kDefaultTotalMappedBytes, or half of what the process may map at all (RLIMIT_AS).
std::uint64_t default_total_mapped_bytes();

class MappedBytes {
 public:
  // `what` stands in refusals: "WHAT allows 5 GiB".
  MappedBytes(std::string what, std::uint64_t limit, std::shared_ptr<MappedBytes> part_of = nullptr)
      : what_(std::move(what)), limit_(limit), part_of_(std::move(part_of)) {}

  // Null: taken. Otherwise the account whose limit forbids it, and nothing is.
  const MappedBytes* take(std::uint64_t bytes);
  void give_back(std::uint64_t bytes);

  const std::string& what() const { return what_; }
  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_.load(std::memory_order_relaxed); }
  // What is taken stays, even where it is more.
  void set_limit(std::uint64_t bytes) { limit_.store(bytes, std::memory_order_relaxed); }

 private:
  const std::string what_;
  std::atomic<std::uint64_t> limit_;
  std::atomic<std::uint64_t> used_ = 0;
  const std::shared_ptr<MappedBytes> part_of_;
};

}  // namespace pvrdma::guestmem
