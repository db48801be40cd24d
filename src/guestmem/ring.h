// GuestRing: the device's end of one ring in guest memory, as consumer (SQ, RQ, SRQ) or producer (CQ,
// asynchronous events, CQ notifications). docs/device.md sections 4.2 to 4.4 and 4.6.
//
// A ring has n elements, a power of two. The stride is a power of two of at most a page, so no element
// crosses a page boundary. Indices run from 0 to 2n - 1: the bit above the slot number is a generation bit.
// The peer's index is loaded once per decision and checked. Our own index lives in a private copy and is
// never read back, except once after resync(). Host addresses of the pages are cached and dropped whenever
// the AddressSpace changes. Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "guestmem/address_space.h"
#include "guestmem/page_directory.h"

namespace pvrdma::guestmem {

enum class RingRole : std::uint8_t { kConsumer, kProducer };

// Which pair of indices in the state page a ring uses. The value is the offset of prod_tail; cons_head
// follows it.
enum class RingWords : std::uint8_t { kTx = 0, kRx = 8 };

struct RingShape {
  RingRole role{};
  RingWords words{};
  std::uint32_t first_page = 1;     // the first data page's index in the page list; page 0 has the state
  std::uint32_t element_count = 0;  // n; for the event and notification rings the effective number (4.3)
  std::uint32_t stride_bytes = 0;   // from one element to the next

  // The number of data pages that such a ring occupies: ceil(n * stride / 4096).
  constexpr std::uint64_t data_pages() const {
    return (std::uint64_t{element_count} * stride_bytes + kPageBytes - 1) / kPageBytes;
  }
};

// A ring's state besides its role and shape: its pages and our index.
struct SavedRing {
  std::vector<std::uint64_t> pages;  // guest-physical; the state page first, then the data pages
  std::uint32_t own_index = 0;       // 0 while it is not known
  bool own_index_known = false;
};

enum class RingStatus : std::uint8_t {
  kOk,
  kEmpty,         // consumer: nothing posted
  kFull,          // producer: all slots hold elements that the guest has not consumed
  kInvalidIndex,  // the guest's index is out of range, or implies more than n used elements; nothing was done
  kUnmapped,      // a page of the ring is no longer RAM; nothing was done
};

class GuestRing {
 public:
  // Copies the addresses of the pages that it needs from `pages`. Returns nothing when the shape is
  // impossible: n is not a power of two in 1 ... 2^30, the stride is not one in 4 ... 4096, or there are too
  // few pages. It does not abort, because these numbers come from guests. `memory` is borrowed and outlives
  // the ring.
  static std::optional<GuestRing> create(const AddressSpace& memory, const PageList& pages,
                                         const RingShape& shape);

  SavedRing save() const;
  // Restores a ring that another daemon saved. Its pages need not be RAM yet. `shape` begins at page 1.
  // Returns nothing when the shape is impossible, `saved` does not have exactly the pages of this shape, a
  // page is unaligned, or the index is out of range.
  static std::optional<GuestRing> restore(const AddressSpace& memory, const SavedRing& saved,
                                          const RingShape& shape);

  std::uint32_t element_count() const { return mask_ / 2 + 1; }
  std::uint32_t stride_bytes() const { return stride_bytes_; }
  // The number of pages whose addresses it keeps, including the state page.
  std::size_t page_count() const { return pages_.size(); }

  struct Used {
    RingStatus status;         // kOk (also with a count of 0), kInvalidIndex or kUnmapped
    std::uint32_t count;       // elements between head and tail; 0 unless kOk
    std::uint32_t peer_index;  // the guest's index; 0 unless kOk
  };
  // How many elements the consumer has not taken yet, for either role. Loads the guest's index (acquire).
  Used used();

  // Consumer: copies the first out.size() bytes (at most the stride) of the next element once, then hands its
  // slot back to the guest (release). On kEmpty, kInvalidIndex and kUnmapped the ring is unchanged.
  [[nodiscard]] RingStatus pop(std::span<std::byte> out);

  // Producer: writes `element` (at most the stride) to the slot at the tail, then moves the tail (release).
  // On kFull, kInvalidIndex and kUnmapped the ring is unchanged. It never touches a slot other than the one
  // at the tail (4.6).
  [[nodiscard]] RingStatus push(std::span<const std::byte> element);

  // Forgets our index (QP -> RESET: the guest zeroes both words after that command). The next use reads it
  // from guest memory and checks it like the guest's own index. A new ring starts like this too.
  void resync() { own_index_known_ = false; }

 private:
  struct Page {
    GuestPhys gpa;
    std::byte* host;  // nullptr: not translated since the last change of the address space
  };

  GuestRing(const AddressSpace& memory, const RingShape& shape);

  bool is_valid(std::uint32_t index) const { return (index & ~mask_) == 0; }
  // The page's host address, or nullptr when the page is no longer RAM with that right.
  std::byte* host_of(Page& page, Access access) {
    if (page.host == nullptr) [[unlikely]]
      page.host = memory_->translate(page.gpa, kPageBytes, access);
    return page.host;
  }
  std::byte* element_at(std::uint32_t index);
  // Every operation begins here. This drops cached addresses if the address space has changed.
  std::byte* state_page() {
    if (generation_ != memory_->generation()) [[unlikely]]
      forget_addresses();
    return host_of(pages_[0], Access::kReadWrite);
  }
  void forget_addresses();
  RingStatus load_indices(std::byte* state, std::uint32_t& used_count);

  const AddressSpace* memory_;
  std::uint64_t generation_ = 0;  // of the address space when `host` pointers were cached
  std::vector<Page> pages_;       // [0] has the state, data from [1] on
  std::uint32_t mask_;            // 2n - 1
  std::uint32_t stride_bytes_;
  std::uint32_t own_index_ = 0;
  bool own_index_known_ = false;
  RingRole role_;
  std::uint8_t own_offset_;   // offset of our index in the state page
  std::uint8_t peer_offset_;  // offset of the guest's index
};

}  // namespace pvrdma::guestmem
