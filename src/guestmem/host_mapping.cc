#include "guestmem/host_mapping.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <linux/magic.h>
#include <new>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/log.h"
#include "guestmem/sigbus.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::size_t kUnmapSliceBytes = 16u << 20;

static_assert(kMaxSigbusRanges > kTotalMappingsMax,
              "the budget ends first, and the rest is for BAR 2 of each adapter");

// The page size of files on that file system; 0 if the kind is not accepted.
std::uint64_t page_bytes_of(const struct statfs& file_system) {
  if (file_system.f_type == TMPFS_MAGIC) return 4096;
  if (file_system.f_type == HUGETLBFS_MAGIC) return static_cast<std::uint64_t>(file_system.f_bsize);
  return 0;
}

Failure no_memory_file() {
  return fail(EOPNOTSUPP,
              "guest memory must be a memfd or a file on tmpfs or hugetlbfs (QEMU: memory-backend-memfd)");
}

}  // namespace

// F_GET_SEALS is answered by the descriptor alone, without the file system, and only memory files support it.
bool is_memory_file(int fd) {
  return ::fcntl(fd, F_GET_SEALS) >= 0;
}

Result<std::unique_ptr<HostMapping>> HostMapping::create(const Fd& fd, std::uint64_t offset,
                                                         std::uint64_t size, int protection,
                                                         std::atomic<bool>& damaged,
                                                         std::shared_ptr<MappedMemory> account) {
  if (!is_memory_file(fd.get())) return no_memory_file();
  struct stat file {};
  struct statfs file_system {};
  if (::fstat(fd.get(), &file) != 0) return fail_errno(errno, "reading the size of the memory file");
  if (::fstatfs(fd.get(), &file_system) != 0) return fail_errno(errno, "reading the kind of the memory file");
  const std::uint64_t page_bytes = page_bytes_of(file_system);
  if (page_bytes == 0) return no_memory_file();
  // The file's last page is whole memory, even if the file ends within it.
  const std::uint64_t file_bytes =
      (static_cast<std::uint64_t>(std::max<off_t>(file.st_size, 0)) + page_bytes - 1) & ~(page_bytes - 1);
  if (offset > file_bytes || size > file_bytes - offset)
    return fail(EINVAL, "the memory file ends before the range does");

  const std::uint64_t first = offset & ~(page_bytes - 1);
  const std::size_t mapped_bytes = (offset + size - first + page_bytes - 1) & ~(page_bytes - 1);
  if (const auto refusal = account->take(mapped_bytes)) return fail(ENOSPC, refusal->to_text());
  // From here on the object's destructor undoes everything.
  std::unique_ptr<HostMapping> mapping;
  try {
    mapping.reset(new HostMapping(mapped_bytes, static_cast<std::size_t>(offset - first),
                                  static_cast<std::size_t>(page_bytes), account));
  } catch (const std::bad_alloc&) {
    account->give_back(mapped_bytes, true);
    return fail_errno(ENOMEM, "mapping the memory file");
  }
  void* base = ::mmap(nullptr, mapped_bytes, protection, MAP_SHARED | MAP_NORESERVE, fd.get(),
                      static_cast<off_t>(first));
  if (base == MAP_FAILED) return fail_errno(errno, "mapping the memory file");
  mapping->base_ = static_cast<std::byte*>(base);
  // Keeps guest memory out of the daemon's core dumps. This is advice only: the outcome does not matter.
  ::madvise(base, mapped_bytes, MADV_DONTDUMP);
  mapping->sigbus_slot_ = add_sigbus_range(mapping->base_, mapped_bytes, mapping->page_bytes_, damaged);
  if (mapping->sigbus_slot_ < 0)
    return fail(ENOSPC, "the daemon maps too many ranges of guest memory already");
  return mapping;
}

void HostMapping::disown() {
  disown_sigbus_range(sigbus_slot_);
}

// Unmaps in slices: while one slice is unmapped, all other threads that map or unmap something wait.
HostMapping::~HostMapping() {
  const std::lock_guard lock(hold_->mutex);
  hold_->is_gone = true;
  if (sigbus_slot_ >= 0) remove_sigbus_range(sigbus_slot_);
  const std::size_t slice_bytes = std::max(kUnmapSliceBytes, page_bytes_);
  std::size_t left = base_ == nullptr ? 0 : mapped_bytes_;
  for (std::byte* at = base_; left != 0;) {
    std::size_t bytes = std::min(left, slice_bytes);
    // The kernel may have merged this mapping with its neighbours. Then a slice splits it, for which the
    // process needs one more mapping than it may have; the whole rest may not.
    if (::munmap(at, bytes) != 0) {
      bytes = left;
      if (::munmap(at, bytes) != 0) break;
    }
    at += bytes;
    left -= bytes;
  }
  if (left != 0) {
    log::error("{} bytes of guest memory stay mapped: {}: raise vm.max_map_count", left,
               std::strerror(errno));
  }
  account_->give_back(mapped_bytes_ - left, left == 0);
}

}  // namespace pvrdma::guestmem
