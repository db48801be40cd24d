// GuestMemory and RingPeer: a guest's RAM and its end of a ring, for tests. The bytes are in a memfd that is
// mapped into an AddressSpace, as a VMM would announce it. The test reads and writes them through the same
// mapping.
//
// Thread: one, except RingPeer's indices, which are atomic as in a guest.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <sys/mman.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "base/check.h"
#include "base/fd.h"
#include "guestmem/address_space.h"
#include "guestmem/copy.h"
#include "guestmem/page_directory.h"
#include "guestmem/ring.h"

namespace pvrdma::test {

using guestmem::GuestPhys;

class GuestMemory {
 public:
  static constexpr std::uint64_t kBase = 0x10'0000;  // guest-physical; nothing is mapped below

  explicit GuestMemory(std::uint64_t size_bytes = 16u << 20) : end_(kBase + size_bytes) {
    Fd fd(::memfd_create("guest-memory", MFD_CLOEXEC));
    PVRDMA_CHECK(fd && ::ftruncate(fd.get(), static_cast<off_t>(size_bytes)) == 0, "a memfd for the guest");
    PVRDMA_CHECK(space_.map(GuestPhys(kBase), size_bytes, std::move(fd), 0, true, true),
                 "the guest's memory maps");
  }

  guestmem::AddressSpace& space() { return space_; }
  GuestPhys end() const { return GuestPhys(end_); }  // one past the last byte

  // `count` fresh, zeroed pages. No two are adjacent in memory, so each is a separate piece in a SpanList.
  std::vector<GuestPhys> pages(std::uint32_t count) {
    std::vector<GuestPhys> out;
    for (std::uint32_t i = 0; i < count; ++i) {
      PVRDMA_CHECK(next_ + guestmem::kPageBytes <= end_, "the guest's memory is used up");
      out.emplace_back(next_);
      next_ += 2 * guestmem::kPageBytes;
    }
    return out;
  }

  // `count` fresh, zeroed pages that are adjacent.
  std::vector<GuestPhys> adjacent_pages(std::uint32_t count) {
    PVRDMA_CHECK(next_ + count * guestmem::kPageBytes <= end_, "the guest's memory is used up");
    std::vector<GuestPhys> out;
    for (std::uint32_t i = 0; i < count; ++i, next_ += guestmem::kPageBytes) out.emplace_back(next_);
    next_ += guestmem::kPageBytes;
    return out;
  }

  // Makes a page directory that names `listed`, at most 512 pages in each of its tables. Returns its
  // guest-physical address.
  std::uint64_t directory(std::span<const GuestPhys> listed) {
    constexpr std::size_t kEntries = guestmem::kPageBytes / sizeof(std::uint64_t);
    const GuestPhys root = pages(1)[0];
    GuestPhys table;
    for (std::size_t i = 0; i < listed.size(); ++i) {
      if (i % kEntries == 0) {
        table = pages(1)[0];
        store(GuestPhys(root.value + i / kEntries * 8), table.value);
      }
      store(GuestPhys(table.value + i % kEntries * 8), listed[i].value);
    }
    return root.value;
  }

  // Fresh pages and the directory that names them, as a CREATE command passes them.
  struct Object {
    std::vector<GuestPhys> pages;
    std::uint64_t directory = 0;
    std::uint32_t page_count() const { return static_cast<std::uint32_t>(pages.size()); }
  };
  Object object(std::uint32_t page_count) {
    Object out{.pages = pages(page_count)};
    out.directory = directory(out.pages);
    return out;
  }

  // Host address of [gpa, gpa + length), which must be mapped.
  std::byte* at(GuestPhys gpa, std::uint64_t length = 1) {
    std::byte* host = space_.translate(gpa, length, guestmem::Access::kReadWrite);
    PVRDMA_CHECK(host != nullptr, "a test touches mapped memory only");
    return host;
  }
  template <typename T>
  T load(GuestPhys gpa) {
    T out;
    std::memcpy(&out, at(gpa, sizeof(T)), sizeof(T));
    return out;
  }
  template <typename T>
  void store(GuestPhys gpa, const T& value) {
    std::memcpy(at(gpa, sizeof(T)), &value, sizeof(T));
  }

 private:
  std::uint64_t next_ = kBase;
  std::uint64_t end_;
  guestmem::AddressSpace space_;
};

// The guest's end of one ring. It has the other role than the one that `shape` gives the device.
class RingPeer {
 public:
  // `pages` are in the order of the object's directory. Page 0 has the state.
  RingPeer(GuestMemory& memory, std::vector<GuestPhys> pages, const guestmem::RingShape& shape)
      : memory_(memory), pages_(std::move(pages)), shape_(shape) {}

  std::uint32_t prod_tail() { return guestmem::load_acquire_u32(word(0)); }
  std::uint32_t cons_head() { return guestmem::load_acquire_u32(word(4)); }
  void set_prod_tail(std::uint32_t index) { guestmem::store_release_u32(word(0), index); }
  void set_cons_head(std::uint32_t index) { guestmem::store_release_u32(word(4), index); }
  std::uint32_t next(std::uint32_t index) const { return (index + 1) & (2 * shape_.element_count - 1); }

  // The address of the element of `index` (with or without generation bit).
  GuestPhys slot(std::uint32_t index) const {
    const std::uint64_t offset = std::uint64_t{index & (shape_.element_count - 1)} * shape_.stride_bytes;
    const GuestPhys page = pages_.at(shape_.first_page + offset / guestmem::kPageBytes);
    return GuestPhys(page.value + offset % guestmem::kPageBytes);
  }

  // For a producing guest: writes `element` at the tail and moves the tail. The test ensures that there is
  // room.
  void post(std::span<const std::byte> element) {
    const std::uint32_t tail = prod_tail();
    std::memcpy(memory_.at(slot(tail), element.size()), element.data(), element.size());
    set_prod_tail(next(tail));
  }

  // For a consuming guest: how many elements wait, and the next one.
  std::uint32_t waiting() { return (prod_tail() - cons_head()) & (2 * shape_.element_count - 1); }
  template <typename T>
  T poll() {
    PVRDMA_CHECK(waiting() != 0, "a test polls what it knows is there");
    const std::uint32_t head = cons_head();
    const T out = memory_.load<T>(slot(head));
    set_cons_head(next(head));
    return out;
  }

 private:
  std::byte* word(std::uint64_t offset) {
    return memory_.at(GuestPhys(pages_.at(0).value + static_cast<std::uint64_t>(shape_.words) + offset), 4);
  }

  GuestMemory& memory_;  // borrowed
  std::vector<GuestPhys> pages_;
  guestmem::RingShape shape_;
};

}  // namespace pvrdma::test
