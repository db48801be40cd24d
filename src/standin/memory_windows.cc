#include "standin/memory_windows.h"

#include <cerrno>
#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

namespace pvrdma::standin {
namespace {

constexpr std::uint64_t kPage = PVRDMA_WIRE_PAGE_BYTES;

Result<> check_file(int fd, std::uint64_t offset, std::uint64_t bytes, MemoryFiles allowed) {
  if (fd < 0) return fail(EINVAL, "a memory window came without a file");
  if ((::fcntl(fd, F_GETFL) & O_ACCMODE) != O_RDWR)
    return fail(EINVAL, "a memory window's file is not open for reading and writing");
  const int seals = ::fcntl(fd, F_GET_SEALS);
  if (seals < 0) return fail(EINVAL, "a memory window's file is not on tmpfs or hugetlbfs");
  if (allowed == MemoryFiles::kSealed && (seals & F_SEAL_SHRINK) == 0)
    return fail(EINVAL, "a memory window's file is not sealed against shrinking");
  if ((seals & (F_SEAL_WRITE | F_SEAL_FUTURE_WRITE)) != 0)
    return fail(EINVAL, "a memory window's file is sealed against writing");
  struct stat status {};
  if (::fstat(fd, &status) != 0) return fail_errno(errno, "looking at a memory window's file");
  // The file's last page is whole memory, even if the file ends within it.
  const std::uint64_t file_bytes = (static_cast<std::uint64_t>(status.st_size) + kPage - 1) / kPage * kPage;
  if (bytes == 0 || offset % kPage != 0 || bytes % kPage != 0 || offset > file_bytes ||
      bytes > file_bytes - offset) {
    return fail(EINVAL, fmt::format("a memory window of {:#x} bytes at {:#x} of a file of {:#x}", bytes,
                                    offset, file_bytes));
  }
  return {};
}

}  // namespace

Result<std::uint64_t> MemoryWindows::add(int fd, std::uint64_t offset, std::uint64_t bytes) {
  if (auto good = check_file(fd, offset, bytes, allowed_); !good) return Failure(std::move(good.error()));
  if (windows_.size() == PVRDMA_WIRE_MAX_WINDOWS)
    return fail(EMFILE, fmt::format("the process has {} memory windows already", windows_.size()));
  auto window = driver::DmaWindow::create(device_, fd, offset, bytes);
  if (!window) return Failure(std::move(window.error()));
  windows_.push_back(std::move(*window));
  return windows_.size() - 1;
}

Result<std::vector<driver::GuestPhys>> MemoryWindows::pages_of(std::span<const pvrdma_wire_run> runs,
                                                               std::uint64_t page_count) const {
  std::vector<driver::GuestPhys> pages;
  for (const pvrdma_wire_run& run : runs) {
    if (run.window >= windows_.size()) return fail(EFAULT, fmt::format("there is no window {}", run.window));
    const driver::DmaWindow& window = *windows_[run.window];
    const std::uint64_t bytes = run.pages * kPage;
    if (run.offset % kPage != 0 || run.offset > window.size_bytes() ||
        bytes > window.size_bytes() - run.offset) {
      return fail(EFAULT,
                  fmt::format("{} pages at {:#x} leave window {}", run.pages, run.offset, run.window));
    }
    if (run.pages > page_count - pages.size())
      return fail(EFAULT, fmt::format("more than the {} pages that the command names", page_count));
    for (std::uint64_t at = 0; at < bytes; at += kPage)
      pages.emplace_back(window.base().value + run.offset + at);
  }
  if (pages.size() != page_count)
    return fail(EFAULT, fmt::format("{} pages for a command that names {}", pages.size(), page_count));
  return pages;
}

}  // namespace pvrdma::standin
