#include "driver/guest_ram.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <sys/mman.h>

#include "abi/layout.h"
#include "base/check.h"

namespace pvrdma::driver {
namespace {

constexpr std::size_t kPage = abi::kPageBytes;
// Odd and large: consecutive pages lie far apart and in no order.
constexpr std::size_t kScatterStep = 0x9e37'79b1;

std::size_t pages_for(std::size_t bytes) {
  return (bytes + kPage - 1) / kPage;
}

}  // namespace

Buffer::~Buffer() {
  ram_.give_back(*this);
}

GuestPhys Buffer::gpa(std::size_t offset) const {
  PVRDMA_CHECK(offset < pages_.size() * kPage, "offset beyond the buffer");
  return GuestPhys(pages_[offset / kPage].value + offset % kPage);
}

Result<std::unique_ptr<GuestRam>> GuestRam::create(const Options& options) {
  if (options.size_bytes == 0 || options.size_bytes % kPage != 0 || options.base.value % kPage != 0) {
    return fail(EINVAL, "guest RAM of " + std::to_string(options.size_bytes) +
                            " bytes: size and base must be multiples of 4096, size not 0");
  }
  Fd memfd(::memfd_create("pvrdma-guest-ram", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!memfd) return fail_errno(errno, "creating a memfd for guest RAM");
  if (::ftruncate(memfd.get(), static_cast<off_t>(options.size_bytes)) != 0) {
    return fail_errno(errno, "sizing guest RAM");
  }
  if (options.seal == Seal::kShrink && ::fcntl(memfd.get(), F_ADD_SEALS, F_SEAL_SHRINK) != 0) {
    return fail_errno(errno, "sealing guest RAM");
  }
  void* mapping = ::mmap(nullptr, options.size_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, memfd.get(), 0);
  if (mapping == MAP_FAILED) return fail_errno(errno, "mapping guest RAM");
  return std::unique_ptr<GuestRam>(new GuestRam(options, std::move(memfd), static_cast<std::byte*>(mapping)));
}

GuestRam::GuestRam(const Options& options, Fd memfd, std::byte* mapping)
    : base_(options.base),
      size_bytes_(options.size_bytes),
      memfd_(std::move(memfd)),
      mapping_(mapping),
      used_(options.size_bytes / kPage),
      free_pages_(used_.size()) {}

GuestRam::~GuestRam() {
  PVRDMA_CHECK(free_pages_ == used_.size(), "a buffer outlives its guest RAM");
  ::munmap(mapping_, size_bytes_);
}

Result<std::unique_ptr<Buffer>> GuestRam::allocate(std::size_t size_bytes, Placement placement) {
  const std::size_t page_count = pages_for(size_bytes);
  if (page_count == 0 || page_count > free_pages_) {
    return fail(ENOMEM, "guest RAM has " + std::to_string(free_pages_) + " free pages, " +
                            std::to_string(page_count) + " wanted");
  }
  std::unique_ptr<Buffer> buffer(new Buffer(*this, size_bytes));
  buffer->pages_.reserve(page_count);
  Result<> taken = placement == Placement::kContiguous ? take_contiguous(*buffer, page_count)
                                                       : take_scattered(*buffer, page_count);
  if (!taken) return Failure(std::move(taken.error()));
  std::memset(buffer->data_, 0, page_count * kPage);
  return buffer;
}

std::byte* GuestRam::at(GuestPhys gpa, std::size_t bytes) const {
  PVRDMA_CHECK(gpa >= base_ && bytes <= size_bytes_ && gpa.value - base_.value <= size_bytes_ - bytes,
               "address outside guest RAM");
  return mapping_ + (gpa.value - base_.value);
}

void GuestRam::take_page(Buffer& buffer, std::size_t page) {
  used_[page] = true;
  --free_pages_;
  buffer.pages_.push_back(GuestPhys(base_.value + page * kPage));
}

Result<> GuestRam::take_contiguous(Buffer& buffer, std::size_t page_count) {
  std::size_t run = 0;
  for (std::size_t page = 0; page < used_.size(); ++page) {
    run = used_[page] ? 0 : run + 1;
    if (run < page_count) continue;
    const std::size_t first = page + 1 - page_count;
    for (std::size_t i = 0; i < page_count; ++i) take_page(buffer, first + i);
    buffer.data_ = mapping_ + first * kPage;
    return {};
  }
  return fail(ENOMEM, "guest RAM has no " + std::to_string(page_count) + " contiguous pages left");
}

// Scattered pages come from the upper half as long as it has free pages, so that contiguous runs stay
// possible in the lower half.
Result<> GuestRam::take_scattered(Buffer& buffer, std::size_t page_count) {
  const std::size_t bytes = page_count * kPage;
  void* range = ::mmap(nullptr, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) return fail_errno(errno, "reserving addresses for a buffer");
  buffer.data_ = static_cast<std::byte*>(range);
  buffer.own_mapping_bytes_ = bytes;

  const std::size_t lower = used_.size() / 2;
  const std::size_t upper_count = used_.size() - lower;
  for (std::size_t i = 0; i < page_count; ++i) {
    scatter_cursor_ = (scatter_cursor_ + kScatterStep) % upper_count;
    std::size_t page = lower + scatter_cursor_;
    while (used_[page])
      page = page == 0 ? used_.size() - 1 : page - 1;  // terminates: free_pages_ covers page_count
    take_page(buffer, page);
    void* at = ::mmap(buffer.data_ + i * kPage, kPage, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED,
                      memfd_.get(), static_cast<off_t>(page * kPage));
    if (at == MAP_FAILED) return fail_errno(errno, "mapping a page of guest RAM");
  }
  return {};
}

void GuestRam::give_back(const Buffer& buffer) {
  if (buffer.own_mapping_bytes_ != 0) ::munmap(buffer.data_, buffer.own_mapping_bytes_);
  for (const GuestPhys page : buffer.pages_) used_[(page.value - base_.value) / kPage] = false;
  free_pages_ += buffer.pages_.size();
}

}  // namespace pvrdma::driver
