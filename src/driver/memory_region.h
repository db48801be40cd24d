// MemoryRegion: memory that the device may access with a key. docs/device.md 6.4, 7.5. Thread: the Device's.
//
// Three kinds: a registered buffer (addresses are the CPU's), the whole guest memory (kernel only; addresses
// are guest-physical), and a region that fast-register work requests fill (kernel only).
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "abi/wqe.h"
#include "base/result.h"
#include "driver/guest_ram.h"
#include "driver/page_directory.h"
#include "driver/protection_domain.h"

namespace pvrdma::driver {

// The parameters of CREATE_MR for a registered buffer. The device has to detect contradictions between them.
struct RegionDescription {
  std::uint64_t start = 0;   // the address of the first byte, as work requests use it
  std::uint64_t length = 0;  // bytes
  std::uint32_t access = 0;  // abi::AccessFlag bits; local reads are always allowed
  std::span<const GuestPhys> pages;
};

class MemoryRegion {
 public:
  static constexpr std::uint32_t kFastRegisterPagesMax = 128;

  // Registers [offset, offset + length) of `buffer`, with any alignment. `pd` is borrowed and outlives the
  // region. The buffer must exist as long as the device uses it.
  static Result<std::unique_ptr<MemoryRegion>> of_buffer(ProtectionDomain& pd, const Buffer& buffer,
                                                         std::uint32_t access, std::size_t offset,
                                                         std::size_t length);
  static Result<std::unique_ptr<MemoryRegion>> of_buffer(ProtectionDomain& pd, const Buffer& buffer,
                                                         std::uint32_t access) {
    return of_buffer(pd, buffer, access, 0, buffer.size_bytes());
  }

  // The general form of of_buffer().
  static Result<std::unique_ptr<MemoryRegion>> of_pages(ProtectionDomain& pd,
                                                        const RegionDescription& description);

  // All of guest memory, for local use by a kernel PD. `access` is at most local write.
  static Result<std::unique_ptr<MemoryRegion>> of_all_memory(ProtectionDomain& pd, std::uint32_t access);

  // An empty region. fast_register() of work_request.h gives it up to `pages_max` (1 ... 128) pages.
  static Result<std::unique_ptr<MemoryRegion>> for_fast_register(ProtectionDomain& pd,
                                                                 std::uint32_t pages_max);

  ~MemoryRegion();
  MemoryRegion(const MemoryRegion&) = delete;
  MemoryRegion& operator=(const MemoryRegion&) = delete;

  // Sends DESTROY_MR. The destructor does so too and ignores the result. Idempotent.
  Result<> destroy();

  std::uint32_t lkey() const { return lkey_; }
  std::uint32_t rkey() const { return rkey_; }
  std::uint32_t handle() const { return handle_; }
  std::uint64_t start() const { return start_; }
  std::uint64_t length() const { return length_; }

  // [offset, offset + bytes) of the region as an element of a work request. Not checked here: the device must
  // check it.
  abi::Sge sge(std::uint64_t offset, std::uint32_t bytes) const { return {start_ + offset, bytes, lkey_}; }

  // --- For fast-register regions only ---

  // Sets the page list for the next fast_register() work request. The device reads the list when it executes
  // the request, so it must not change until the request has completed.
  Result<> set_page_list(std::span<const GuestPhys> pages);
  GuestPhys page_list() const { return list_->gpa(); }
  std::uint32_t page_list_length() const { return page_list_length_; }

  // Changes the low byte of the key and returns the key. Consumers do so before each registration.
  std::uint32_t next_key();

 private:
  explicit MemoryRegion(ProtectionDomain& pd) : pd_(pd) {}
  static Result<std::unique_ptr<MemoryRegion>> create(ProtectionDomain& pd,
                                                      const RegionDescription& description,
                                                      std::uint32_t flags, std::uint32_t page_count,
                                                      std::unique_ptr<PageDirectory> directory);

  ProtectionDomain& pd_;
  std::unique_ptr<PageDirectory> directory_;  // of a registered buffer
  std::unique_ptr<PageDirectory> list_;       // of a fast-register region
  std::uint32_t handle_ = 0;
  std::uint32_t lkey_ = 0;
  std::uint32_t rkey_ = 0;
  std::uint64_t start_ = 0;
  std::uint64_t length_ = 0;
  std::uint32_t page_list_length_ = 0;
  bool alive_ = true;
};

}  // namespace pvrdma::driver
