// AddressSpace: the DMA map table of one adapter, from guest-physical addresses to the daemon's own memory.
//
// The VMM announces ranges (vfio-user DMA_MAP, docs/device.md 8.10). A range with a file descriptor is RAM
// and is mapped here. A range without one is remembered but never translates. Ranges do not overlap. Host
// pointers that come out are valid until generation() changes. Nobody keeps one for longer than a turn of the
// loop without comparing generation(). If the VMM truncates the file behind a map, its pages read as zeros
// and set damaged() (see sigbus.h); from then on no address translates.
//
// An unmapped range is forgotten at once. Its mapping goes to the reaper, if there is one.
//
// An AddressSpace can log the pages that were translated for writing (dirty_log.h): the pages that a VM's
// move has to copy again. An unused log costs nothing: logging takes the right to write away from a range's
// fast check, and only an access that fails this check asks the log. Thread: shard-owned; damaged() any
// thread.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/fd.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/strong.h"
#include "guestmem/dirty_log.h"
#include "guestmem/host_span.h"
#include "guestmem/mapped_memory.h"

namespace pvrdma::guestmem {

// A guest-physical address, which without a virtual IOMMU is the DMA address.
using GuestPhys = Strong<struct GuestPhysTag, std::uint64_t>;

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::size_t kMaxMaps = 65535;  // the number that we announce to the VMM (8.2)
inline constexpr std::size_t kMaxRamMaps = 8192;
inline constexpr std::uint64_t kMaxMapBytes = 1ull << 46;

// The rights that an access needs. Atomic operations and ring state need both.
enum class Access : std::uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

// The outcome of appending the pieces of a range to a list.
enum class Resolved : std::uint8_t {
  kAll,       // the whole range is in the list
  kListFull,  // the list is full and holds a prefix of the range: use the list, then go on after that prefix
  kFault,     // a byte is not RAM with the right asked for; the list is unchanged
};

enum class LogState : std::uint8_t {
  kOff,
  kOn,
  kBroken,  // there was no memory to log a new map, so some written pages are unknown
};

// Consecutive pages.
struct PageRun {
  GuestPhys begin;
  std::uint64_t page_count;
};

class HostMapping;
struct MappingHold;

// Is called before memory is unmapped. When on_unmapping() returns, only the guest may still touch the
// memory.
class MemoryWatcher {
 public:
  virtual ~MemoryWatcher() = default;
  virtual void on_unmapping(std::span<const std::byte> memory) = 0;
};

// One range that is RAM.
struct RamRange {
  std::span<std::byte> memory;
  bool is_writable;
  const std::shared_ptr<MappingHold>& hold;
};

class AddressSpace {
  struct Region;

 public:
  // Without a queue, memory is unmapped in place. Without an account, it gets one of the default size.
  explicit AddressSpace(std::shared_ptr<ReaperQueue> reaper = nullptr,
                        std::shared_ptr<MappedMemory> account = nullptr);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Adds [iova, iova + size). The bytes are in `fd` from `fd_offset` on; `fd` is borrowed for the call. If
  // `fd` is empty, the range is remembered as "not RAM". Blocks for the system calls only. Error::code is
  // always an errno value fit for the reply: EINVAL (unaligned, empty, wraps, larger than kMaxMapBytes,
  // neither readable nor writable, or the file's last page ends before the range), EEXIST (overlap), ENOSPC
  // (kMaxMaps, kMaxRamMaps, the account or the daemon's table is full), EOPNOTSUPP (the file is not a memfd,
  // tmpfs or hugetlbfs file), ENOMEM, or the errno of a failed system call.
  Result<> map(GuestPhys iova, std::uint64_t size, const Fd& fd, std::uint64_t fd_offset, bool readable,
               bool writable);

  // Removes all ranges inside [iova, iova + size), which does not wrap. Returns 0, ENOENT if there are none,
  // or EINVAL if it would cut a range; then nothing changes. When it returns, no address in the removed
  // ranges translates any more.
  [[nodiscard]] int unmap(GuestPhys iova, std::uint64_t size);
  void unmap_all();

  // `watcher` is borrowed; null removes the watcher.
  void tell(MemoryWatcher* watcher) { watcher_ = watcher; }

  // Calls `visit(RamRange)` for each RAM range, in the order of addresses. Calls nothing while damaged().
  void for_each_ram(const std::function<void(const RamRange&)>& visit) const;

  std::size_t map_count() const { return regions_.size(); }
  std::uint64_t ram_bytes() const { return ram_bytes_; }  // of the ranges that are RAM
  MappedMemory& account() const { return *account_; }

  // Whether the address is in a range without a descriptor: the VMM's own memory, a ROM or a device.
  bool is_private(GuestPhys gpa) const {
    const Region* region = find(gpa.value);
    return region != nullptr && region->host == nullptr;
  }

  // Changes with every map and unmap, when the log starts, and when pages are taken out of the log. It is 0
  // while damaged(). A host pointer is invalid when this value has changed since the translation.
  std::uint64_t generation() const { return damaged() ? 0 : generation_; }

  // True once a mapped page has vanished: its bytes read as zeros, and nothing translates until unmap_all().
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }

  // Host address of [gpa, gpa + length) if one RAM range covers all of it with the right asked for, else
  // nullptr. With a length of 0, gpa itself must be covered. Does not allocate.
  std::byte* translate(GuestPhys gpa, std::uint64_t length, Access access) const {
    const Region* region = find(gpa.value);
    if (region == nullptr || length > region->end - gpa.value) return nullptr;
    if (!region->allows_unlogged(access)) [[unlikely]]
      return translate_logged(*region, gpa.value, length, access);
    return region->host + (gpa.value - region->begin);
  }

  // Translates one address after the other, cheaply while they stay in one range. Valid until generation()
  // changes.
  class Cursor {
   public:
    Cursor(const AddressSpace& memory, Access access) : memory_(memory), access_(access) {}

    // As AddressSpace::translate().
    std::byte* translate(GuestPhys gpa, std::uint64_t length) {
      const std::uint64_t at = gpa.value - begin_;
      if (at < size_ && length <= size_ - at) [[likely]]
        return host_ + at;
      if (logged_ != nullptr && logged_->contains(gpa.value) && length <= logged_->end - gpa.value &&
          logged_->is_marked(gpa.value, length))
        return logged_->host + (gpa.value - logged_->begin);
      return enter(gpa, length);
    }

   private:
    std::byte* enter(GuestPhys gpa, std::uint64_t length);

    const AddressSpace& memory_;
    const Access access_;
    std::uint64_t begin_ = 0;  // begin of the last address's range, unless its pages must be marked
    std::uint64_t size_ = 0;
    std::byte* host_ = nullptr;
    const Region* logged_ = nullptr;  // the last address's range, if its pages must be marked
  };

  // Calls visit(std::byte* data, std::size_t size) for each host piece of [gpa, gpa + length) in order. The
  // range may span several RAM ranges. Stops when visit returns false. Returns false if it stopped, or if a
  // byte is not RAM with that right; the pieces before that byte have been visited.
  template <typename Visit>
  bool for_each_piece(GuestPhys gpa, std::uint64_t length, Access access, Visit&& visit) const {
    std::uint64_t at = gpa.value;
    while (length != 0) {
      const Region* region = find(at);
      if (region == nullptr) return false;
      const std::uint64_t size = length < region->end - at ? length : region->end - at;
      if (!region->allows_unlogged(access) && translate_logged(*region, at, size, access) == nullptr)
        return false;
      if (!visit(region->host + (at - region->begin), static_cast<std::size_t>(size))) return false;
      at += size;
      length -= size;
    }
    return true;
  }

  // Appends the host pieces of [gpa, gpa + length) to `out`. With a length of 0 the outcome is kAll for any
  // gpa.
  [[nodiscard]] Resolved translate_pieces(GuestPhys gpa, std::uint64_t length, Access access,
                                          SpanList& out) const;

  // --- The log of written pages. ---

  // Starts an empty log. It covers all present RAM and all RAM that is mapped while the log is on;
  // unmap_all() does not stop it. The memory for present RAM, 1/32768 of the RAM's size, is reserved here;
  // for large maps it is touched only when their pages are written. The account's limit for mapped RAM also
  // bounds the size of the log. EBUSY: a log has started already; ENOMEM: no memory, and the log is off.
  Result<> start_log();
  void stop_log();
  LogState log_state() const { return log_state_; }
  // Pages that are marked and not taken yet, including pages that are not RAM now.
  std::uint64_t logged_pages() const { return log_ != nullptr ? log_->marked_pages() : 0; }

  // The smallest size of `runs` that collect_log() accepts.
  static constexpr std::size_t kRunsMin = 32;
  struct Collected {
    std::size_t run_count = 0;
    bool is_end = false;  // no marked page follows; `next` has no meaning
    GuestPhys next{};     // where to go on
  };
  // Takes marked pages from `from` on out of the log, in order, and writes them to `runs`, which has room for
  // at least kRunsMin. Two runs may be adjacent. Looks at a bounded part of the memory (32 GiB if all of it
  // is marked), so several calls may pass before is_end. Pages that are not RAM now are left out and stay
  // marked, because the same RAM may be mapped again. EINVAL: the log is off; ENODATA: it is broken.
  Result<Collected> collect_log(GuestPhys from, std::span<PageRun> runs);

  // The most that one report covers: 32 GiB, a bitmap of 1 MiB.
  static constexpr std::uint64_t kReportPagesMax = 1ull << 23;
  // The size in bytes of a bitmap of whole 64-bit words, for a range of `size` bytes.
  static constexpr std::uint64_t bitmap_bytes(std::uint64_t size, std::uint64_t page_bytes) {
    return (size / page_bytes + (size % page_bytes != 0) + 63) / 64 * 8;
  }
  // Like collect_log(), but fills a bitmap in the format of vfio's DMA_LOGGING_REPORT: one bit for each
  // `page_bytes` from `begin` on. The lowest bit of the first byte is the first page. `bitmap` must have
  // bitmap_bytes(). EINVAL also: the page size is not a power of two of at least 4096; the range is empty,
  // wraps, is not a multiple of 4096, or begins at an address that is not a multiple of the page size; or the
  // bitmap has another length. E2BIG: more than kReportPagesMax pages of 4 KiB.
  Result<> report_log(GuestPhys begin, std::uint64_t size, std::uint64_t page_bytes,
                      std::span<std::byte> bitmap);

 private:
  struct Region {
    std::uint64_t begin;
    std::uint64_t end;  // exclusive
    std::byte* host;    // of begin; nullptr if not RAM
    std::uint8_t rights;
    std::uint8_t rights_unlogged;  // rights that need no mark: all of them, or at most kRead while the region
                                   // is logged
    DirtyLog::Chunk* log;          // the chunk of `begin`; nullptr: not logged
    std::unique_ptr<HostMapping> mapping;

    bool contains(std::uint64_t address) const { return address >= begin && address < end; }
    bool allows(Access access) const { return includes(rights, access); }
    bool allows_unlogged(Access access) const { return includes(rights_unlogged, access); }
    // True if no byte of the range needs a new mark. The range lies in this region, and the access would
    // write. May return false for a range of more than one page although all of its pages are marked.
    bool is_marked(std::uint64_t gpa, std::uint64_t length) const {
      const std::uint64_t page = gpa / kPageBytes;
      return log != nullptr && length - 1 < kPageBytes - gpa % kPageBytes &&
             DirtyLog::is_marked(
                 log, page / DirtyLog::kChunkPages - begin / kPageBytes / DirtyLog::kChunkPages, page);
    }
    static bool includes(std::uint8_t rights, Access access) {
      const auto wanted = static_cast<std::uint8_t>(access);
      return (rights & wanted) == wanted;
    }
  };

  const Region* find(std::uint64_t address) const {
    if (damaged()) [[unlikely]]
      return nullptr;
    if (last_hit_ != nullptr && last_hit_->contains(address)) [[likely]]
      return last_hit_;
    return search(address);
  }
  // The host address of [gpa, gpa + length), which lies in the region, or nullptr if the region does not
  // allow the access. Marks the pages. It is not inlined, so that callers of translate() stay as small as
  // without the log.
  std::byte* translate_logged(const Region& region, std::uint64_t gpa, std::uint64_t length,
                              Access access) const;
  void changed();
  Result<> insert(std::size_t at, Region region);
  void give_up(Region& region);
  void log_regions();
  void log_new_region(std::size_t at);
  void unlog_regions();
  bool cover(const Region& region);
  Result<> check_log() const;
  template <typename Visit>
  std::uint64_t take_log(std::uint64_t page, std::uint64_t end, Visit&& visit);
  const Region* search(std::uint64_t address) const;
  std::size_t first_ending_after(std::uint64_t address) const;

  std::atomic<bool> damaged_ = false;
  std::vector<Region> regions_;  // sorted, disjoint
  std::size_t ram_map_count_ = 0;
  std::uint64_t ram_bytes_ = 0;
  std::uint64_t generation_ = 1;
  LogState log_state_ = LogState::kOff;
  std::unique_ptr<DirtyLog> log_;             // while kOn
  mutable const Region* last_hit_ = nullptr;  // points into regions_; reset when they change
  MemoryWatcher* watcher_ = nullptr;
  const std::shared_ptr<ReaperQueue> reaper_;  // null: unmap in place
  const std::shared_ptr<MappedMemory> account_;
};

}  // namespace pvrdma::guestmem
