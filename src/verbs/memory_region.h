// Memory regions and the one check every access goes through. Reference 6.4, 7.5. Thread: shard-owned.
//
// Keys: lkey = rkey = generation << 26 | slot << 8 | variant. A slot is taken again only after all others
// were, and the generation changes with it, so that a key of a deregistered MR is not soon valid again. The
// low byte is the consumer's (fast register); elsewhere it is 0. Slot 0 stays unused, so no key is 0. The
// handle is the key without its low byte.
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

// Pages of one fast registration at most; the guest driver knows the same bound (reference, appendix A).
inline constexpr std::uint32_t kFastRegisterPagesMax = 128;

enum class MrKind : std::uint8_t { kUser, kDma, kFastRegister };

struct CreateMr {
  MrKind kind{};
  PdHandle pd;
  std::uint64_t start = 0;         // user virtual address
  std::uint64_t length = 0;        // bytes
  std::uint32_t access_flags = 0;  // abi access bits; those above 0x7f are ignored
  // Pages of the directory; kFastRegister: the most a registration may have, 1 … kFastRegisterPagesMax.
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

// Which keys come next: without that, one of a region that is gone could be made again too soon.
struct SavedMrSlots {
  std::vector<std::uint8_t> generations;  // by slot, of the next region there; that of slot 0 means nothing
  std::vector<std::uint32_t> free;        // the slot that is taken first comes first
};

class MemoryRegionTable {
 public:
  // `limits`, `memory` and `account` are borrowed and outlive the table.
  MemoryRegionTable(const Limits& limits, const guestmem::AddressSpace& memory, Account& account);
  ~MemoryRegionTable();

  // Walks the page directory (each entry copied once). kInvalid: length 0 or too long, wrap, page_count not
  // what (start, length) spans, remote access without kind kUser. kBadAddress: a page that is no RAM.
  // kNoMemory: a budget.
  Outcome<MrKeys> create(const CreateMr& request);
  Outcome<> destroy(MrHandle handle);

  // Drops every MR of these PDs in one pass and tells how many there were. Their memory is bury()'s.
  std::uint32_t destroy_all_of(const std::unordered_set<PdHandle>& pds);
  void destroy_all();
  // Gives memory of dropped MRs back, at most `budget` (an MR counts one, and one for each 512 pages), and
  // takes it off.
  void bury_dropped(std::uint32_t& budget);
  // The same for all MRs of a table that is not used any more.
  void bury_all(std::uint32_t& budget);
  bool any_of(PdHandle pd) const { return counts_.contains(pd); }

  // Checks key, PD, bounds and permission, then appends the host pieces of [addr, addr + length) to `out`.
  // Length 0 is legal with any key. No allocation. On any fault `out` is as it was. kNotMapped also when the
  // range takes more pieces than `out` has room for: kPieceBytesMax over kSgeMax elements always fits into
  // an empty list.
  KeyFault resolve(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length, AccessNeed need,
                   guestmem::SpanList& out) const;

  // The same checks without looking at the memory behind it.
  KeyFault check(std::uint32_t key, PdHandle pd, std::uint64_t addr, std::uint64_t length,
                 AccessNeed need) const;

  struct FastRegister {
    std::uint32_t key = 0;
    PdHandle pd;
    std::uint64_t iova_start = 0;
    std::uint64_t page_directory = 0;
    std::uint32_t page_shift = 0;  // 12 is the only one supported
    std::uint32_t page_count = 0;
    std::uint32_t length = 0;
    std::uint32_t access_flags = 0;
  };
  // Executes a FAST_REG work request: copies the page list now (the guest rewrites it later). False: local QP
  // operation error (no such fast-register MR in this PD, still valid, too many pages, bad length, not RAM).
  bool fast_register(const FastRegister& request);

  // Local or remote invalidation of a fast-register MR. False: no such valid key in this PD.
  bool invalidate(std::uint32_t key, PdHandle pd);

  // How many loans (loans.h) name the region of that key; no region: nothing is counted.
  void add_use(std::uint32_t key);
  void drop_use(std::uint32_t key);
  std::uint32_t uses(std::uint32_t key) const;
  std::uint32_t uses(MrHandle handle) const;

  std::uint32_t count() const { return count_; }

  // --- Saving and loading (ADR 16). A table that is loaded is new; first its slots, then the regions. ---

  SavedMrSlots save_slots() const;
  // Calls `visit(SavedMr)` for each region.
  template <typename Visit>
  void save_each(Visit visit) const {
    for (std::uint32_t slot = 1; slot < slots_.size(); ++slot) {
      if (slots_[slot].region != nullptr) visit(save(*slots_[slot].region));
    }
  }
  // False: a value is out of its range, or a budget is used up.
  bool restore_slots(const SavedMrSlots& saved);
  // Of a PD that exists, a user process's or the kernel's.
  bool restore(const SavedMr& saved, bool is_kernel);
  // Whether each slot has a region or is free, which a table always is.
  bool is_whole() const;

 private:
  struct Region;
  struct Slot {
    std::unique_ptr<Region> region;  // null: free
    std::uint32_t next_free = 0;     // of a free slot, the one freed after it; 0 = none
    std::uint8_t generation = 0;     // of the next region here
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
  std::uint32_t oldest_free_ = 0;   // a queue: the slot freed first is taken first
  std::uint32_t newest_free_ = 0;
  std::vector<std::unique_ptr<Region>> dropped_;
  std::uint32_t count_ = 0;
  std::unordered_map<PdHandle, std::uint32_t> counts_;  // MRs by PD; no entry = none
};

}  // namespace pvrdma::verbs
