#include "guestmem/host_mapping.h"

#include <algorithm>
#include <cerrno>
#include <linux/magic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/vfs.h>

#include "base/check.h"
#include "guestmem/sigbus.h"

namespace pvrdma::guestmem {
namespace {

// Page size of files on that file system, 0 for a kind that is not accepted.
std::uint64_t page_bytes_of(const struct statfs& file_system) {
  if (file_system.f_type == TMPFS_MAGIC) return 4096;
  if (file_system.f_type == HUGETLBFS_MAGIC) return static_cast<std::uint64_t>(file_system.f_bsize);
  return 0;
}

}  // namespace

Result<std::unique_ptr<HostMapping>> HostMapping::create(const Fd& fd, std::uint64_t offset,
                                                         std::uint64_t size, int protection,
                                                         std::atomic<bool>& damaged) {
  struct stat file {};
  struct statfs file_system {};
  if (::fstat(fd.get(), &file) != 0) return fail_errno(errno, "reading the size of the memory file");
  if (::fstatfs(fd.get(), &file_system) != 0) return fail_errno(errno, "reading the kind of the memory file");
  const auto file_bytes = static_cast<std::uint64_t>(std::max<off_t>(file.st_size, 0));
  if (offset > file_bytes || size > file_bytes - offset)
    return fail(EINVAL, "the memory file ends before the range does");

  const std::uint64_t page_bytes = page_bytes_of(file_system);
  if (page_bytes == 0)
    return fail(EOPNOTSUPP,
                "guest memory must be a memfd or a file on tmpfs or hugetlbfs (QEMU: memory-backend-memfd)");
  const std::uint64_t first = offset & ~(page_bytes - 1);
  const std::size_t mapped_bytes = (offset + size - first + page_bytes - 1) & ~(page_bytes - 1);
  void* base = ::mmap(nullptr, mapped_bytes, protection, MAP_SHARED | MAP_NORESERVE, fd.get(),
                      static_cast<off_t>(first));
  if (base == MAP_FAILED) return fail_errno(errno, "mapping the memory file");

  // From here on the object's destructor undoes everything.
  std::unique_ptr<HostMapping> mapping(
      new HostMapping(static_cast<std::byte*>(base), mapped_bytes, static_cast<std::size_t>(offset - first)));
  // Guests' memory has no place in the daemon's core dumps. Advice only: the outcome does not matter.
  ::madvise(base, mapped_bytes, MADV_DONTDUMP);
  mapping->sigbus_slot_ =
      add_sigbus_range(mapping->base_, mapped_bytes, static_cast<std::size_t>(page_bytes), damaged);
  if (mapping->sigbus_slot_ < 0)
    return fail(ENOSPC, "the daemon maps too many ranges of guest memory already");
  return mapping;
}

HostMapping::~HostMapping() {
  if (sigbus_slot_ >= 0) remove_sigbus_range(sigbus_slot_);
  const int outcome = ::munmap(base_, mapped_bytes_);
  PVRDMA_CHECK(outcome == 0, "unmapping our own mapping");
}

}  // namespace pvrdma::guestmem
