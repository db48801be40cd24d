// GuestRing: the device's end of one ring in guest memory, as consumer (SQ, RQ, SRQ) or producer (CQ,
// asynchronous events, CQ notifications). docs/device.md sections 4.2 to 4.4 and 4.6.
//
// n elements, a power of two, of a power-of-two stride of at most a page, so that none straddles pages.
// Indices run from 0 to 2n - 1: the bit above the slot number is a generation bit. The peer's index is loaded
// once per decision and checked; our own lives in a private copy and is never read back, except once after
// resync(). Host addresses of the pages are cached and dropped whenever the AddressSpace changes. Thread:
// shard-owned.
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

// Which pair of indices of the state page a ring uses: the offset of its prod_tail; cons_head follows.
enum class RingWords : std::uint8_t { kTx = 0, kRx = 8 };

struct RingShape {
  RingRole role{};
  RingWords words{};
  std::uint32_t first_page = 1;     // index in the page list of the first data page; page 0 has the state
  std::uint32_t element_count = 0;  // n; for the event and notification rings the effective number (4.3)
  std::uint32_t stride_bytes = 0;   // from one element to the next

  // Data pages that such a ring occupies: ceil(n * stride / 4096).
  constexpr std::uint64_t data_pages() const {
    return (std::uint64_t{element_count} * stride_bytes + kPageBytes - 1) / kPageBytes;
  }
};

// What a ring is besides its role and shape: where it lies, and how far we are.
struct SavedRing {
  std::vector<std::uint64_t> pages;  // guest-physical; the state page, then those with data
  std::uint32_t own_index = 0;       // 0 while it is not known
  bool own_index_known = false;
};

enum class RingStatus : std::uint8_t {
  kOk,
  kEmpty,         // consumer: nothing posted
  kFull,          // producer: the guest has not made room
  kInvalidIndex,  // the guest's index is out of range or ahead of what is possible; nothing was done
  kUnmapped,      // a page of the ring is no longer RAM; nothing was done
};

class GuestRing {
 public:
  // Takes the addresses of the pages it needs out of `pages`. Nothing when the shape is impossible: n not a
  // power of two in 1 ... 2^30, stride not one in 4 ... 4096, or fewer pages than it takes. Such numbers come
  // from guests. `memory` is borrowed and outlives the ring.
  static std::optional<GuestRing> create(const AddressSpace& memory, const PageList& pages,
                                         const RingShape& shape);

  SavedRing save() const;
  // The same ring of another daemon, whose pages need not be RAM yet. `shape` begins at page 1. Nothing when
  // it is impossible, has not exactly these pages, aligned, or the index is out of range.
  static std::optional<GuestRing> restore(const AddressSpace& memory, const SavedRing& saved,
                                          const RingShape& shape);

  std::uint32_t element_count() const { return mask_ / 2 + 1; }
  std::uint32_t stride_bytes() const { return stride_bytes_; }
  // Pages it keeps the addresses of, with the state page.
  std::size_t page_count() const { return pages_.size(); }

  struct Used {
    RingStatus status;         // kOk (also with a count of 0), kInvalidIndex or kUnmapped
    std::uint32_t count;       // elements between head and tail, 0 unless kOk
    std::uint32_t peer_index;  // the guest's, 0 unless kOk
  };
  // How many elements the consumer has not taken yet: either role. Loads the guest's index (acquire).
  Used used();

  // Consumer: copies the first out.size() bytes (at most the stride) of the next element once, then hands its
  // slot back to the guest (release). kEmpty, kInvalidIndex and kUnmapped leave the ring as it was.
  [[nodiscard]] RingStatus pop(std::span<std::byte> out);

  // Producer: writes `element` (at most the stride) to the slot at the tail, then moves the tail (release).
  // kFull, kInvalidIndex and kUnmapped leave the ring as it was. No slot but the one at the tail is ever
  // touched (4.6).
  [[nodiscard]] RingStatus push(std::span<const std::byte> element);

  // Forgets our index (QP -> RESET: the guest zeroes both words after that command). The next use takes it
  // from guest memory, where it is checked like the guest's own. A new ring starts like this too.
  void resync() { own_index_known_ = false; }

 private:
  struct Page {
    GuestPhys gpa;
    std::byte* host;  // nullptr: not translated since the last change of the address space
  };

  GuestRing(const AddressSpace& memory, const RingShape& shape);

  bool is_valid(std::uint32_t index) const { return (index & ~mask_) == 0; }
  // The page's host address, or nullptr when it is no longer RAM with that right.
  std::byte* host_of(Page& page, Access access) {
    if (page.host == nullptr) [[unlikely]]
      page.host = memory_->translate(page.gpa, kPageBytes, access);
    return page.host;
  }
  std::byte* element_at(std::uint32_t index);
  // Every operation begins here: it is also where cached addresses of an older map table are dropped.
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
  std::uint8_t own_offset_;   // of our index in the state page
  std::uint8_t peer_offset_;  // of the guest's index
};

}  // namespace pvrdma::guestmem
