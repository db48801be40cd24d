// AddressSpace: the DMA map table of one adapter, from guest-physical addresses to the daemon's own memory.
//
// The VMM announces ranges (vfio-user DMA_MAP, docs/device.md 8.10); a range with a file descriptor is RAM
// and is mapped here, one without is remembered but never translates. Ranges do not overlap. Host pointers
// that come out stay good until generation() changes; nothing keeps them longer than one turn without asking
// it. Memory that the VMM takes away behind our back reads as zeros and sets damaged(), see sigbus.h; from
// then on no address translates.
//
// A range that is unmapped is forgotten at once; the memory itself goes to the reaper, where there is one.
//
// It can keep a log of the pages that were translated for writing (dirty_log.h): what a VM's move has to
// bring along. Until it is started it costs nothing: a range that is logged looks like one that must not be
// written, and only then is the log asked. Thread: shard-owned, damaged() any thread.
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
#include "guestmem/mapped_bytes.h"

namespace pvrdma::guestmem {

// A guest-physical address, which without a virtual IOMMU is the DMA address.
using GuestPhys = Strong<struct GuestPhysTag, std::uint64_t>;

inline constexpr std::uint64_t kPageBytes = 4096;
inline constexpr std::size_t kMaxMaps = 65535;   // what the protocol lets us announce (8.2)
inline constexpr std::size_t kMaxRamMaps = 512;  // each is a mapping of the daemon, which has 65530
inline constexpr std::uint64_t kMaxMapBytes = 1ull << 46;

// What an access needs of the range. Atomic operations and ring state need both.
enum class Access : std::uint8_t { kRead = 1, kWrite = 2, kReadWrite = 3 };

// How a list of pieces came out.
enum class Resolved : std::uint8_t {
  kAll,       // the whole range is in the list
  kListFull,  // the list is full: it holds a prefix of the range, so go on behind it after using the list
  kFault,     // a byte is not RAM with the right asked for; the list is as it was
};

enum class LogState : std::uint8_t {
  kOff,
  kOn,
  kBroken,  // there was no memory to log a new map: what was written is not known
};

// Pages side by side.
struct PageRun {
  GuestPhys begin;
  std::uint64_t page_count;
};

class HostMapping;
struct MappingHold;

// Told of memory that is about to go. When it returns, nobody but the guest touches it.
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
  // Without a queue memory is unmapped in place, without an account it has one of the default size.
  explicit AddressSpace(std::shared_ptr<ReaperQueue> reaper = nullptr,
                        std::shared_ptr<MappedBytes> account = nullptr);
  ~AddressSpace();
  AddressSpace(const AddressSpace&) = delete;
  AddressSpace& operator=(const AddressSpace&) = delete;

  // Adds [iova, iova + size). `fd` holds the bytes from `fd_offset` on and is borrowed for the call; an empty
  // one: the range is remembered as "not RAM". Blocks for the system calls only. Error::code is always an
  // errno fit for the reply: EINVAL (unaligned, empty, wraps, larger than kMaxMapBytes, no right at all, or
  // the file ends before), EEXIST (overlap), ENOSPC (kMaxMaps, kMaxRamMaps, the account or the daemon's table
  // full), EOPNOTSUPP (the file is no memfd, tmpfs or hugetlbfs file), ENOMEM, or what the system calls said.
  Result<> map(GuestPhys iova, std::uint64_t size, const Fd& fd, std::uint64_t fd_offset, bool readable,
               bool writable);

  // Removes the range that was mapped with exactly these numbers. 0, or ENOENT. When it returns, no address
  // in it translates any more.
  [[nodiscard]] int unmap(GuestPhys iova, std::uint64_t size);
  void unmap_all();

  // Borrowed; null: nobody.
  void tell(MemoryWatcher* watcher) { watcher_ = watcher; }

  // Calls `visit(RamRange)` for each, by address.
  void for_each_ram(const std::function<void(const RamRange&)>& visit) const;

  std::size_t map_count() const { return regions_.size(); }
  std::uint64_t ram_bytes() const { return ram_bytes_; }  // of the ranges that are RAM
  MappedBytes& account() const { return *account_; }

  // Changes with every map and unmap, when the log begins and when pages are taken out of it; is 0 while
  // damaged(). Host pointers obtained under another value are void.
  std::uint64_t generation() const { return damaged() ? 0 : generation_; }

  // True once a page vanished under us: its bytes read as zeros, and nothing translates until unmap_all().
  bool damaged() const { return damaged_.load(std::memory_order_relaxed); }

  // Host address of [gpa, gpa + length) if one RAM range covers it all with the right asked for, else
  // nullptr. A length of 0 needs gpa itself to be covered. No allocation.
  std::byte* translate(GuestPhys gpa, std::uint64_t length, Access access) const {
    const Region* region = find(gpa.value);
    if (region == nullptr || length > region->end - gpa.value) return nullptr;
    if (!region->allows_unlogged(access)) [[unlikely]]
      return translate_logged(*region, gpa.value, length, access);
    return region->host + (gpa.value - region->begin);
  }

  // Translates one address after the other, cheaply while they stay in one range. Good until generation()
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
    std::uint64_t begin_ = 0;  // of the range the last address was in, unless its pages are to be marked
    std::uint64_t size_ = 0;
    std::byte* host_ = nullptr;
    const Region* logged_ = nullptr;  // the range the last one was in whose pages are
  };

  // Calls visit(std::byte* data, std::size_t size) for each host piece of [gpa, gpa + length) in order, which
  // may span several ranges; stops when visit returns false. False if it stopped, or if a byte has no RAM
  // with that right: the pieces before it have been visited.
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

  // Appends the host pieces of [gpa, gpa + length) to `out`. A length of 0 is kAll anywhere.
  [[nodiscard]] Resolved translate_pieces(GuestPhys gpa, std::uint64_t length, Access access,
                                          SpanList& out) const;

  // --- The log of written pages. ---

  // Begins it, empty, for all RAM there is and all that is mapped while it is on; unmap_all() does not end
  // it. All memory for the RAM there is, 1/32768 of it, is taken here, and that of large maps touched when
  // they are written; in all at most for as much as the account allows to be mapped. EBUSY: it has begun;
  // ENOMEM: no memory, it is off.
  Result<> start_log();
  void stop_log();
  LogState log_state() const { return log_state_; }
  // Marked and not taken yet, with those that are no RAM now.
  std::uint64_t logged_pages() const { return log_ != nullptr ? log_->marked_pages() : 0; }

  // The least room for runs that collect_log() needs.
  static constexpr std::size_t kRunsMin = 32;
  struct Collected {
    std::size_t run_count = 0;
    bool is_end = false;  // nothing behind: next means nothing
    GuestPhys next{};     // where to go on
  };
  // Takes marked pages from `from` on out of the log, in order, into `runs`, at least kRunsMin; two runs may
  // be neighbours. Looks at a bounded part of the memory (32 GiB where all of it is marked), so that is_end
  // may take several calls. Pages that are no RAM now are left out, and stay marked: the same RAM may be
  // mapped again. EINVAL: the log is off; ENODATA: it is broken.
  Result<Collected> collect_log(GuestPhys from, std::span<PageRun> runs);

  // What one report covers at most: 32 GiB, a bitmap of 1 MiB.
  static constexpr std::uint64_t kReportPagesMax = 1ull << 23;
  // Bytes of a bitmap, of whole 64-bit words, for a range of `size` bytes.
  static constexpr std::uint64_t bitmap_bytes(std::uint64_t size, std::uint64_t page_bytes) {
    return (size / page_bytes + (size % page_bytes != 0) + 63) / 64 * 8;
  }
  // The same as a bitmap as vfio's DMA_LOGGING_REPORT has it, a bit for each `page_bytes` from `begin` on:
  // the lowest of the first byte is the first. `bitmap` has bitmap_bytes(). EINVAL also: the page size is no
  // power of two of at least 4096, the range is empty, wraps or is no multiple of 4096 or begins at none of
  // the page size, or the bitmap has another length; E2BIG: more than kReportPagesMax pages of 4 KiB.
  Result<> report_log(GuestPhys begin, std::uint64_t size, std::uint64_t page_bytes,
                      std::span<std::byte> bitmap);

 private:
  struct Region {
    std::uint64_t begin;
    std::uint64_t end;  // exclusive
    std::byte* host;    // of begin; nullptr if not RAM
    std::uint8_t rights;
    std::uint8_t rights_unlogged;  // those that need no mark: all, or while it is logged kRead at most
    DirtyLog::Chunk* log;          // of begin; nullptr: not logged
    std::unique_ptr<HostMapping> mapping;

    bool contains(std::uint64_t address) const { return address >= begin && address < end; }
    bool allows(Access access) const { return includes(rights, access); }
    bool allows_unlogged(Access access) const { return includes(rights_unlogged, access); }
    // Of bytes that it has, and a right that needs a mark; may be false of more than one page.
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
  // The host address of [gpa, gpa + length), which the region has, if its log, or it at all, allows the
  // access; marks the pages. A call of its own, so that what calls translate() stays as small as without the
  // log.
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
  mutable const Region* last_hit_ = nullptr;  // of regions_, forgotten when they change
  MemoryWatcher* watcher_ = nullptr;
  const std::shared_ptr<ReaperQueue> reaper_;  // null: in place
  const std::shared_ptr<MappedBytes> account_;
};

}  // namespace pvrdma::guestmem
