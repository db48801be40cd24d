// Memory regions, and the one check that every access passes. Reference 6.4, 7.5. Thread: shard-owned.
//
// Keys: lkey = rkey = generation << 26 | slot << 8 | variant. A freed slot is reused only after all slots
// freed before it, and the generation then changes, so that a key of a deregistered MR does not soon become
// valid again. The consumer chooses the low byte of a fast-register MR; elsewhere it is 0. Slot 0 stays
// unused, so no key is 0. The handle is the key without its low byte.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "guestmem/address_space.h"
#include "guestmem/host_span.h"
#include "guestmem/page_directory.h"
#include "guestmem/page_list_memory.h"
#include "guestmem/paged_range.h"
#include "verbs/account.h"
#include "verbs/ids.h"
#include "verbs/limits.h"
#include "verbs/status.h"

namespace pvrdma::verbs {

// The most pages of one fast registration. The guest driver uses the same bound (reference, appendix A).
inline constexpr std::uint32_t kFastRegisterPagesMax = 128;

enum class MrKind : std::uint8_t { kUser, kDma, kFastRegister };

struct CreateMr {
  MrKind kind{};
  PdHandle pd;
  std::uint64_t start = 0;         // user virtual address
  std::uint64_t length = 0;        // bytes
  std::uint32_t access_flags = 0;  // abi access bits; those above 0x7f are ignored
  // Pages of the directory. For kFastRegister: the most pages of one registration, 1 … kFastRegisterPagesMax.
  std::uint32_t page_count = 0;
  std::uint64_t page_directory = 0;
};

struct MrKeys {
  MrHandle handle;
  std::uint32_t key;
};

enum class KeyFault : std::uint8_t { kNone, kBadKey, kWrongPd, kOutOfBounds, kNoPermission, kNotMapped };

// What an access needs: one abi access bit (local write, remote write, remote read, remote atomic), or 0 for
// a local read.
struct AccessNeed {
  std::uint32_t flag = 0;
  bool remote = false;  // a DMA MR is never a valid remote key
};

struct SavedMr {
  std::uint32_t key = 0;
  MrKind kind{};
  bool valid = false;
  std::uint32_t access_flags = 0;
  PdHandle pd;
  std::uint32_t fast_register_pages = 0;
  std::uint64_t start = 0;
  std::uint64_t length = 0;          // bytes
  std::vector<std::uint64_t> pages;  // guest-physical
};

// Determines which keys are assigned next. Without it, a key of a destroyed region could be assigned again
// too soon.
struct SavedMrSlots {
  std::vector<std::uint8_t>
      generations;  // by slot: the generation of the next region there; the entry of slot 0 means nothing
  std::vector<std::uint32_t> free;  // in the order in which they will be taken
};

class MemoryRegionTable {
 public:
  // `limits`, `memory` and `account` are borrowed and outlive the table.
  MemoryRegionTable(const Limits& limits, const guestmem::AddressSpace& memory, Account& account);
  ~MemoryRegionTable();

  // Walks the page directory and copies each entry once. kInvalid: the length is 0 or too long, the range
  // wraps, page_count differs from what (start, length) spans, or remote access without kind kUser.
  // kBadAddress: a page is not RAM. kNoMemory: a budget is used up.
  Outcome<MrKeys> create(const CreateMr& request);
  Outcome<> destroy(MrHandle handle);

  // Drops every MR of these PDs in one pass and returns how many there were. bury_dropped() frees their
  // memory.
  std::uint32_t destroy_all_of(const std::unordered_set<PdHandle>& pds);
  void destroy_all();
  // Frees memory of dropped MRs, up to `budget`, and subtracts what it used from `budget`. An MR costs 1,
  // plus 1 for each 512 pages.
  void bury_dropped(std::uint32_t& budget);
  // Like bury_dropped(), for all MRs of a table that is no longer used.
  void bury_all(std::uint32_t& budget);
  bool any_of(PdHandle pd) const { return counts_.contains(pd); }

  // Checks key, PD, bounds and permission, then appends the host pieces of [addr, addr + length) to `out`.
  // Length 0 is legal with any key. Does not allocate. On any fault `out` is unchanged. Returns kNotMapped
  // also if the range takes more pieces than `out` has room for; kPieceBytesMax over kSgeMax elements always
  // fits into an empty list.
  KeyFault resolve(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length, AccessNeed need,
                   guestmem::SpanList& out) const;

  // The same checks, but without looking up the memory.
  KeyFault check(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length,
                 AccessNeed need) const;

  struct FastRegister {
    std::uint32_t key = 0;
    PdHandle pd;
    std::uint64_t iova_start = 0;
    std::uint64_t page_directory = 0;
    std::uint32_t page_shift = 0;  // only 12 is supported
    std::uint32_t page_count = 0;
    std::uint32_t length = 0;
    std::uint32_t access_flags = 0;
  };
  // Executes a FAST_REG work request. Copies the page list now, because the guest rewrites it later. Returns
  // false (a local QP operation error) if there is no such fast-register MR in this PD, it is still valid,
  // there are too many pages, the length is bad, or a page is not RAM.
  bool fast_register(const FastRegister& request);

  // Local or remote invalidation of a fast-register MR. Returns false if this PD has no such valid key.
  bool invalidate(std::uint32_t key, PdHandle pd);

  // These count the loans (loans.h) that name the region with that key. Without such a region they do
  // nothing.
  void add_use(std::uint32_t key);
  void drop_use(std::uint32_t key);
  std::uint32_t uses(std::uint32_t key) const;
  std::uint32_t uses(MrHandle handle) const;

  std::uint32_t count() const { return count_; }

  // --- Saving and loading (ADR 16). Load into a new table: first the slots, then the regions. ---

  SavedMrSlots save_slots() const;
  std::uint32_t slots_end() const { return static_cast<std::uint32_t>(slots_.size()); }
  // Empty: no region has that slot, which is below slots_end().
  std::optional<SavedMr> save_region(std::uint32_t slot) const {
    const Region* const region = slots_[slot].region.get();
    return region != nullptr ? std::optional(save(*region)) : std::nullopt;
  }
  // Returns false if a value is out of its range or a budget is used up.
  bool restore_slots(const SavedMrSlots& saved);
  // The region's PD must exist. `is_kernel`: it is the kernel's PD, not a user process's.
  bool restore(const SavedMr& saved, bool is_kernel);
  // Whether each slot either has a region or is free; this always holds for a consistent table.
  bool is_whole() const;

 private:
  struct Region;
  struct Slot {
    std::unique_ptr<Region> region;  // null: free
    std::uint32_t next_free = 0;     // of a free slot: the slot freed after it; 0 = none
    std::uint8_t generation = 0;     // of the next region in this slot
  };

  Region* find(std::uint32_t key) const;
  static KeyFault may_use(const Region* region, std::uint32_t key, PdHandle pd, std::uint64_t addr,
                          std::uint64_t length, AccessNeed need);
  Region* find_fast_register(std::uint32_t key, PdHandle pd) const;
  Outcome<std::unique_ptr<Region>> make_region(const CreateMr& request);
  static SavedMr save(const Region& region);
  bool fill(Region& region, const SavedMr& saved);
  bool charge(Region& region, std::uint32_t pages);
  std::uint32_t take_slot();
  std::unique_ptr<Region> release(std::uint32_t slot);
  static void bury_one(std::unique_ptr<Region> region, std::uint32_t& budget);

  const Limits& limits_;
  const guestmem::AddressSpace& memory_;
  Account& account_;
  guestmem::PageListMemory lists_;  // outlives the regions
  std::vector<Slot> slots_;         // grows to max_mr; slot 0 unused
  std::uint32_t oldest_free_ = 0;   // free slots form a queue: the slot freed first is taken first
  std::uint32_t newest_free_ = 0;
  std::vector<std::unique_ptr<Region>> dropped_;
  std::uint32_t count_ = 0;
  std::unordered_map<PdHandle, std::uint32_t> counts_;  // MRs by PD; no entry means 0
};

}  // namespace pvrdma::verbs
