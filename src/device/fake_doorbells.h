// DoorbellPages: the mappable part of an adapter's BAR 2 as its guest sees it, for this folder's tests and
// fuzzers. Thread: one.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <sys/mman.h>

#include "abi/registers.h"
#include "base/check.h"
#include "device/adapter.h"

namespace pvrdma::test {

class DoorbellPages {
 public:
  // `adapter` has mapped doorbells.
  explicit DoorbellPages(const device::Adapter& adapter) {
    const auto info = adapter.region_info(2);
    first_ = info.mmap_areas.at(0).offset;
    bytes_ = first_ + info.mmap_areas.at(0).size;
    fd_ = info.fd;
    void* at = ::mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_SHARED, fd_, 0);
    PVRDMA_CHECK(at != MAP_FAILED, "the client maps what it is offered");
    data_ = static_cast<std::byte*>(at);
  }
  ~DoorbellPages() { ::munmap(data_, bytes_); }
  DoorbellPages(const DoorbellPages&) = delete;
  DoorbellPages& operator=(const DoorbellPages&) = delete;

  volatile std::uint32_t& word(std::uint32_t uar, abi::UarWord which) {
    return *reinterpret_cast<volatile std::uint32_t*>(data_ + uar * abi::kUarPageBytes +
                                                      static_cast<std::uint32_t>(which));
  }
  // All mappable pages: those from 1 on, and the additional one.
  std::span<std::byte> all() { return {data_ + first_, bytes_ - first_}; }
  int fd() const { return fd_; }  // the adapter's; offsets in it are offsets in BAR 2

 private:
  std::uint64_t first_;
  std::uint64_t bytes_;
  int fd_;
  std::byte* data_;
};

}  // namespace pvrdma::test
