// GuestRam: the memory that a driver shares with its adapter, and the allocator of its pages.
//
// The memory is one memfd, sealed against shrinking, mapped as a whole, and announced to the device as one
// DMA window. Buffers consist of whole zeroed pages, in one of two placements:
//   kContiguous  adjacent pages, like a kernel's coherent allocation;
//   kScattered   pages from all over, in no order, mapped side by side for the CPU, like a user process's.
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

// Guest-physical address: the address of a byte as the device sees it.
using GuestPhys = Strong<struct GuestPhysTag, std::uint64_t>;

enum class Placement { kContiguous, kScattered };

class GuestRam;

// Pages of guest RAM, contiguous for the CPU. The destructor returns them. Thread: one thread at a time.
class Buffer {
 public:
  ~Buffer();
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  std::byte* data() const { return data_; }
  std::size_t size_bytes() const { return size_bytes_; }  // the requested size; the pages may be larger
  std::span<std::byte> bytes() const { return {data_, size_bytes_}; }

  // The CPU's address as a number, for work requests on a registered buffer.
  std::uint64_t address() const { return reinterpret_cast<std::uintptr_t>(data_); }

  std::span<const GuestPhys> pages() const { return pages_; }

  // The guest-physical address of the byte at `offset`, which is below size_bytes().
  GuestPhys gpa(std::size_t offset = 0) const;

 private:
  friend class GuestRam;
  Buffer(GuestRam& ram, std::size_t size_bytes) : ram_(ram), size_bytes_(size_bytes) {}

  GuestRam& ram_;  // borrowed, outlives the buffer
  std::size_t size_bytes_;
  std::byte* data_ = nullptr;
  std::size_t own_mapping_bytes_ =
      0;  // a kScattered buffer's own address range; 0 = inside the RAM's mapping
  std::vector<GuestPhys> pages_;
};

class GuestRam {
 public:
  enum class Seal { kShrink, kNone };  // kNone: for drivers that truncate their memory on purpose
  struct Options {
    std::uint64_t size_bytes = 64ULL << 20;  // a multiple of 4096
    GuestPhys base{1ULL << 32};  // page-aligned; above 4 GiB, so that tests detect truncated addresses
    Seal seal = Seal::kShrink;
  };

  // Errors: out of memory, bad size.
  static Result<std::unique_ptr<GuestRam>> create(const Options& options);
  ~GuestRam();
  GuestRam(const GuestRam&) = delete;
  GuestRam& operator=(const GuestRam&) = delete;

  // Takes zeroed pages for `size_bytes` > 0 bytes. Error: ENOMEM if no (contiguous) pages are left.
  Result<std::unique_ptr<Buffer>> allocate(std::size_t size_bytes,
                                           Placement placement = Placement::kScattered);

  int fd() const { return memfd_.get(); }
  GuestPhys base() const { return base_; }
  std::uint64_t size_bytes() const { return size_bytes_; }
  std::size_t free_pages() const { return free_pages_; }
  // Whether the page at `page`, which lies inside the RAM, belongs to a buffer.
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
