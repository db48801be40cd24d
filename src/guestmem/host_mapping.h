// HostMapping: owns one shared mapping of a VMM's memory file, its entry in the SIGBUS table, and its bytes
// in the account.
//
// Only memfd, tmpfs and hugetlbfs files are accepted. A page fault on any other file (FUSE, a slow disk)
// could stall the shard for as long as the VMM likes. For the same reason the descriptor itself is asked
// first whether it is a memory file, before any question goes to its file system. On hugetlbfs the mapping
// begins and ends at huge pages of the file, because mmap requires it. So it may extend beyond the requested
// range on both sides.
//
// Unmapping takes 10 ms for each GiB in use. If the VMM is gone already, it also frees the pages (40 ms). So
// the reaper does it. Thread: control of its owner, then the reaper's; does not move.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/reaper.h"
#include "base/result.h"
#include "guestmem/mapped_memory.h"

namespace pvrdma::guestmem {

// True if the file is in memory. Does not block, now or when the descriptor is closed, whatever file a
// stranger has passed.
bool is_memory_file(int fd);

// For a thread that uses a mapping while its owner may unmap it. The mapping stays while the mutex is held.
struct MappingHold {
  std::mutex mutex;
  bool is_gone = false;  // guarded by `mutex`
};

class HostMapping final : public Reapable {
 public:
  // Maps `size` bytes of `fd` from `offset` on with the given mmap protection. `damaged` is borrowed until
  // disown(), and is set when a page of the mapping vanishes. `account` is charged. Errors: EOPNOTSUPP for
  // another kind of file, EINVAL when the file's last page ends before offset + size, ENOSPC when the account
  // or the SIGBUS table is used up, else the errno of the failed system call.
  static Result<std::unique_ptr<HostMapping>> create(const Fd& fd, std::uint64_t offset, std::uint64_t size,
                                                     int protection, std::atomic<bool>& damaged,
                                                     std::shared_ptr<MappedMemory> account);
  ~HostMapping() override;
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;

  // Host address of file byte `offset`.
  std::byte* data() const { return base_ + lead_bytes_; }

  const std::shared_ptr<MappingHold>& hold() const { return hold_; }

  // Declares that nobody uses the mapping any more; another thread is about to destroy it.
  void disown();

 private:
  HostMapping(std::size_t mapped_bytes, std::size_t lead_bytes, std::size_t page_bytes,
              std::shared_ptr<MappedMemory> account)
      : mapped_bytes_(mapped_bytes),
        lead_bytes_(lead_bytes),
        page_bytes_(page_bytes),
        account_(std::move(account)),
        hold_(std::make_shared<MappingHold>()) {}

  std::byte* base_ = nullptr;
  const std::size_t mapped_bytes_;
  const std::size_t lead_bytes_;  // mapped before data()
  const std::size_t page_bytes_;
  const std::shared_ptr<MappedMemory> account_;  // charged for mapped_bytes_
  const std::shared_ptr<MappingHold> hold_;
  int sigbus_slot_ = -1;
};

}  // namespace pvrdma::guestmem
