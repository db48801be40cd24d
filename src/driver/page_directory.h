// PageDirectory: the two-level list of pages by which a driver describes memory to the device.
//
// directory[t] -> table, table[i] -> page; little-endian 64-bit guest-physical addresses, 512 a page
// (docs/device.md 4.1). Thread: one thread at a time.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "driver/guest_ram.h"

namespace pvrdma::driver {

class PageDirectory {
 public:
  static constexpr std::size_t kPagesMax = 512 * 512;

  // An empty directory for `page_capacity` pages (1 ... kPagesMax). `ram` is borrowed and outlives it.
  static Result<std::unique_ptr<PageDirectory>> create(GuestRam& ram, std::size_t page_capacity);

  // A directory that lists `pages`.
  static Result<std::unique_ptr<PageDirectory>> of(GuestRam& ram, std::span<const GuestPhys> pages);

  // Overwrites entry `index` < capacity(). Any value is allowed, so that tests can lie.
  void set(std::size_t index, GuestPhys page);
  void assign(std::span<const GuestPhys> pages);  // entries 0 ... pages.size() - 1

  // The directory's address, for commands and work requests.
  GuestPhys gpa() const { return directory_->gpa(); }
  std::size_t capacity() const { return capacity_; }

  // The directory page itself, for tests that damage it.
  std::span<std::uint64_t> raw_directory();

 private:
  PageDirectory(std::unique_ptr<Buffer> directory, std::unique_ptr<Buffer> tables, std::size_t capacity)
      : directory_(std::move(directory)), tables_(std::move(tables)), capacity_(capacity) {}

  std::unique_ptr<Buffer> directory_;
  std::unique_ptr<Buffer> tables_;
  std::size_t capacity_;
};

}  // namespace pvrdma::driver
