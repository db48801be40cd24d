// TestRam: a memfd that plays the guest's memory in tests, seen from the guest's side. Thread: a test's.
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "base/check.h"
#include "base/fd.h"
#include "guestmem/address_space.h"

namespace pvrdma::guestmem {

class TestRam {
 public:
  explicit TestRam(std::size_t bytes) : bytes_(bytes), fd_(::memfd_create("guest-ram", MFD_CLOEXEC)) {
    PVRDMA_CHECK(fd_ && ::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0, "the test needs a memfd");
    void* base = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd_.get(), 0);
    PVRDMA_CHECK(base != MAP_FAILED, "the test maps its memfd");
    base_ = static_cast<std::byte*>(base);
  }
  TestRam(const TestRam&) = delete;
  TestRam& operator=(const TestRam&) = delete;
  ~TestRam() { ::munmap(base_, bytes_); }

  // A descriptor as it would arrive in a message.
  Fd fd() const { return Fd(::dup(fd_.get())); }
  void truncate(std::size_t bytes) {
    PVRDMA_CHECK(::ftruncate(fd_.get(), static_cast<off_t>(bytes)) == 0, "shrinks");
  }

  // Maps all of it into `memory` at `iova`, readable and writable.
  void map_into(AddressSpace& memory, std::uint64_t iova) const {
    PVRDMA_CHECK(memory.map(GuestPhys(iova), bytes_, fd(), 0, true, true).has_value(),
                 "the test's map is accepted");
  }

  // The guest's own view, by offset in the memfd.
  std::byte* at(std::size_t offset) { return base_ + offset; }
  template <typename T>
  void store(std::size_t offset, const T& value) {
    std::memcpy(base_ + offset, &value, sizeof value);
  }
  template <typename T>
  T load(std::size_t offset) const {
    T value;
    std::memcpy(&value, base_ + offset, sizeof value);
    return value;
  }

 private:
  std::size_t bytes_;
  Fd fd_;
  std::byte* base_;
};

}  // namespace pvrdma::guestmem
