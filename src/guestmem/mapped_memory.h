// MappedMemory: limits for the guest memory that is mapped, for one adapter and for all adapters together:
// its bytes, and the number of its mappings. take() charges an account and the account that it is part of:
// both, or neither.
//
// A VMM can use the same sparse file for any number of maps. They cost the VMM nothing, but they use the
// daemon's address space, and the kernel allows a process 65530 mappings (vm.max_map_count). Both count until
// the memory is really unmapped, so the reaper's threads give them back. The last quarter of what all
// adapters together may have of mappings is for adapters with few of them.
//
// Thread: any.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <utility>

namespace pvrdma::guestmem {

// Twice the memory of the largest VM: when QEMU maps all memory again (a reboot), the old mappings may not be
// unmapped yet.
inline constexpr std::uint64_t kDefaultMappedBytes = 2ull << 40;
// For all adapters together: an eighth of the process's address space.
inline constexpr std::uint64_t kDefaultTotalMappedBytes = 16ull << 40;
// Mappings of an adapter, which are twice as many as its maps of memory for the same reason, and of all
// adapters together: a mapping whose pages have vanished becomes two, and the process needs others.
inline constexpr std::uint64_t kMappingsMax = 16384;
inline constexpr std::uint64_t kTotalMappingsMax = 28672;
// An adapter with no more mappings than these has few. A VM without hot-plugged memory has less than ten.
inline constexpr std::uint64_t kFewMappings = 64;

// The limit for an adapter of a VM with this much memory. It has the factor of two for the same reason, and 1
// GiB for ROMs and flash.
constexpr std::uint64_t mapped_bytes_for(std::uint64_t vm_memory_bytes) {
  return 2 * vm_memory_bytes + (1ull << 30);
}

// kDefaultTotalMappedBytes, or half of what the process may map at all (RLIMIT_AS).
std::uint64_t default_total_mapped_bytes();

// A limit and what is used of it. Thread: any.
class MappedCount {
 public:
  explicit MappedCount(std::uint64_t limit) : limit_(limit) {}

  // Returns false if `limit - kept` does not allow `amount` more, and counts the refusal.
  bool take(std::uint64_t amount, std::uint64_t kept = 0);
  void give_back(std::uint64_t amount) { used_.fetch_sub(amount, std::memory_order_relaxed); }

  std::uint64_t used() const { return used_.load(std::memory_order_relaxed); }
  std::uint64_t limit() const { return limit_; }
  std::uint64_t refused() const { return refused_.load(std::memory_order_relaxed); }

 private:
  const std::uint64_t limit_;
  std::atomic<std::uint64_t> used_ = 0;
  std::atomic<std::uint64_t> refused_ = 0;
};

class MappedMemory {
 public:
  struct Limits {
    std::uint64_t bytes = kDefaultMappedBytes;
    std::uint64_t mappings = kMappingsMax;
  };
  // Refusals name the account and the key of the limit: "WHOSE (KEYSmapped_mib) allows 5 MiB".
  MappedMemory(std::string whose, std::string keys, Limits limits,
               std::shared_ptr<MappedMemory> part_of = nullptr)
      : whose_(std::move(whose)),
        keys_(std::move(keys)),
        bytes_(limits.bytes),
        mappings_(limits.mappings),
        part_of_(std::move(part_of)) {}

  // The account and the limit that forbid something.
  struct Refusal {
    const MappedMemory* by;
    const MappedCount* limit;  // bytes() or mappings() of `by`
    bool is_kept;              // what is left is for adapters with few mappings
    std::string to_text() const;
  };
  // Takes one mapping of this size, and returns nothing. Otherwise it takes nothing.
  std::optional<Refusal> take(std::uint64_t bytes) noexcept;
  // Gives back bytes of a mapping, and the mapping with its last ones.
  void give_back(std::uint64_t bytes, bool is_last);

  const MappedCount& bytes() const { return bytes_; }
  const MappedCount& mappings() const { return mappings_; }

 private:
  // `kept`: how many of the mappings are for others.
  std::optional<Refusal> take(std::uint64_t bytes, std::uint64_t kept) noexcept;

  const std::string whose_;
  const std::string keys_;
  MappedCount bytes_;
  MappedCount mappings_;
  const std::shared_ptr<MappedMemory> part_of_;
};

}  // namespace pvrdma::guestmem
