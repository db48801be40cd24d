// GuestRam: the memory a driver shares with its adapter, and the allocator of its pages.
//
// One memfd, sealed against shrinking, mapped as a whole, announced to the device as one DMA window. Buffers
// are taken from it in whole pages, zeroed, in one of two placements:
//   kContiguous  adjacent pages, as a kernel's coherent allocation;
//   kScattered   pages from all over, in no order, mapped side by side for the CPU: what a user process has.
//
// Thread: one thread at a time. Not for the data path: allocations map and unmap pages.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "abi/layout.h"
#include "base/fd.h"
#include "base/result.h"
#include "base/strong.h"

namespace pvrdma::driver {

// Guest-physical address: where the device sees a byte.
using GuestPhys = Strong<struct GuestPhysTag, std::uint64_t>;

enum class Placement { kContiguous, kScattered };

class GuestRam;

// Pages of guest RAM, contiguous for the CPU. Gives them back when destroyed. Thread: one thread at a time.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }  // as asked for; the pages reach further
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

  // The CPU's address as a number: what work requests on a registered buffer name.
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }

  std::span<const GuestPhys> pages() const { return pages_; }

  // Where the device sees the byte at `offset`; offset < size_bytes().
  GuestPhys gpa(std::size_t offset = 0) const;

 private:
  friend class GuestRam;
  Buffer(GuestRam& ram, std::size_t size_bytes) : ram_(ram), size_bytes_(size_bytes) {}

  GuestRam& ram_;  // borrowed, outlives the buffer
  std::size_t size_bytes_;
  std::byte* data_ = nullptr;
  std::size_t own_mapping_bytes_ =
      0;  // of a kScattered buffer's own address range; 0 = inside the RAM's mapping
  std::vector<GuestPhys> pages_;
};

class GuestRam {
 public:
  enum class Seal { kShrink, kNone };  // kNone: for drivers that truncate their memory on purpose
  struct Options {
    std::uint64_t size_bytes = 64ULL << 20;  // a multiple of 4096
    GuestPhys base{1ULL << 32};              // page-aligned; above 4 GiB so that truncated addresses show
    Seal seal = Seal::kShrink;
  };

  // Errors: no memory, bad size.
  static Result<std::unique_ptr<GuestRam>> create(const Options& options);
  ~GuestRam();
  GuestRam(const GuestRam&) = delete;
  GuestRam& operator=(const GuestRam&) = delete;

  // Zeroed pages for `size_bytes` > 0 bytes. Errors: ENOMEM when no (contiguous) pages are left.
  Result<std::unique_ptr<Buffer>> allocate(std::size_t size_bytes,
                                           Placement placement = Placement::kScattered);

  int fd() const { return memfd_.get(); }
  GuestPhys base() const { return base_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  std::size_t free_pages() const { return free_pages_; }
  // Whether a buffer has the page at `page`, which lies inside the RAM.
  bool is_taken(GuestPhys page) const {
    return used_[static_cast<std::size_t>((page.value - base_.value) / abi::kPageBytes)];
  }

  // The CPU's view of [gpa, gpa + bytes), which must lie inside the RAM.
  std::byte* at(GuestPhys gpa, std::size_t bytes) const;

 private:
  friend class Buffer;
  GuestRam(const Options& options, Fd memfd, std::byte* mapping);
  Result<> take_contiguous(Buffer& buffer, std::size_t page_count);
  Result<> take_scattered(Buffer& buffer, std::size_t page_count);
  void take_page(Buffer& buffer, std::size_t page);
  void give_back(const Buffer& buffer);

  GuestPhys base_;
  std::uint64_t size_bytes_;
  Fd memfd_;
  std::byte* mapping_;
  std::vector<bool> used_;  // by page
  std::size_t free_pages_;
  std::size_t scatter_cursor_ = 0;
};

}  // namespace pvrdma::driver
