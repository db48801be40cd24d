#include "driver/memory_region.h"

#include <cerrno>
#include <fmt/core.h>

#include "driver/device.h"

namespace pvrdma::driver {

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::create(ProtectionDomain& pd,
                                                           const RegionDescription& description,
                                                           std::uint32_t flags, std::uint32_t page_count,
                                                           std::unique_ptr<PageDirectory> directory) {
  auto answer = pd.context().device().commands().call<abi::CreateMrResponse>(
      abi::Command::kCreateMr, abi::CreateMrRequest{.start = description.start,
                                                    .length = description.length,
                                                    .pdir_dma = directory ? directory->gpa().value : 0,
                                                    .pd_handle = pd.handle(),
                                                    .access_flags = description.access,
                                                    .flags = flags,
                                                    .nchunks = page_count});
  if (!answer) return Failure(std::move(answer.error()));
  std::unique_ptr<MemoryRegion> made(new MemoryRegion(pd));
  made->directory_ = std::move(directory);
  made->handle_ = answer->mr_handle;
  made->lkey_ = answer->lkey;
  made->rkey_ = answer->rkey;
  made->start_ = description.start;
  made->length_ = description.length;
  return made;
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::of_buffer(ProtectionDomain& pd, const Buffer& buffer,
                                                              std::uint32_t access, std::size_t offset,
                                                              std::size_t length) {
  if (length == 0 || offset > buffer.size_bytes() || length > buffer.size_bytes() - offset) {
    return fail(EINVAL, fmt::format("registering {} bytes at {} of a buffer of {}", length, offset,
                                    buffer.size_bytes()));
  }
  const std::size_t first = offset / abi::kPageBytes;
  const std::size_t last = (offset + length - 1) / abi::kPageBytes;
  return of_pages(
      pd, {buffer.address() + offset, length, access, buffer.pages().subspan(first, last - first + 1)});
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::of_pages(ProtectionDomain& pd,
                                                             const RegionDescription& description) {
  auto directory = PageDirectory::of(pd.context().device().ram(), description.pages);
  if (!directory) return Failure(std::move(directory.error()));
  return create(pd, description, 0, static_cast<std::uint32_t>(description.pages.size()),
                std::move(*directory));
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::of_all_memory(ProtectionDomain& pd,
                                                                  std::uint32_t access) {
  return create(pd, {.access = access}, abi::kMrDma, 0, nullptr);
}

Result<std::unique_ptr<MemoryRegion>> MemoryRegion::for_fast_register(ProtectionDomain& pd,
                                                                      std::uint32_t pages_max) {
  auto list = PageDirectory::create(pd.context().device().ram(), kFastRegisterPagesMax);
  if (!list) return Failure(std::move(list.error()));
  auto made = create(pd, {}, abi::kMrFastReg, pages_max, nullptr);
  if (made) (*made)->list_ = std::move(*list);
  return made;
}

MemoryRegion::~MemoryRegion() {
  (void)destroy();
}

Result<> MemoryRegion::destroy() {
  if (!alive_) return {};
  alive_ = false;
  return pd_.context().device().commands().run(abi::Command::kDestroyMr,
                                               abi::DestroyMrRequest{.mr_handle = handle_});
}

Result<> MemoryRegion::set_page_list(std::span<const GuestPhys> pages) {
  if (!list_ || pages.size() > list_->capacity()) {
    return fail(EINVAL, fmt::format("{} pages do not fit the region's page list", pages.size()));
  }
  list_->assign(pages);
  page_list_length_ = static_cast<std::uint32_t>(pages.size());
  return {};
}

std::uint32_t MemoryRegion::next_key() {
  lkey_ = (lkey_ & 0xffff'ff00) | ((lkey_ + 1) & 0xff);
  rkey_ = lkey_;
  return rkey_;
}

}  // namespace pvrdma::driver
