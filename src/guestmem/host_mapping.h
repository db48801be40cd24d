// HostMapping: owns one shared mapping of a VMM's memory file, its entry in the SIGBUS table and its bytes of
// the budget.
//
// Only memfd, tmpfs and hugetlbfs files are accepted: a page fault on any other (FUSE, a slow disk) could
// stall the shard for as long as the VMM likes. For the same reason the kind is asked of the descriptor
// itself, before anything of its file system is. On hugetlbfs the mapping begins and ends on the file's huge
// pages, because mmap insists on it, and so may be longer than what was asked for on both sides.
//
// Unmapping takes 10 ms for each GiB in use, and where the VMM is gone already it frees the pages, too
// (40 ms): that is the reaper's business. Thread: control of its owner, then the reaper's; does not move.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>

#include "base/fd.h"
#include "base/reaper.h"
#include "base/result.h"
#include "guestmem/mapped_bytes.h"

namespace pvrdma::guestmem {

// Whether it is in memory, whatever a stranger has handed over: nobody is waited for, here and at its end.
bool is_memory_file(int fd);

// For a thread that uses a mapping while its owner may give it up: while the mutex is held, the mapping stays
// as it is.
struct MappingHold {
  std::mutex mutex;
  bool is_gone = false;  // guarded
};

class HostMapping final : public Reapable {
 public:
  // Maps `size` bytes of `fd` from `offset` on with the given mmap protection. `damaged` is borrowed until
  // disown() and is set when a page of it vanishes. `account` pays for it. Errors: EOPNOTSUPP for another
  // kind of file, EINVAL when it ends before offset + size, ENOSPC when the account or the SIGBUS table is
  // used up, else what the system calls said.
  static Result<std::unique_ptr<HostMapping>> create(const Fd& fd, std::uint64_t offset, std::uint64_t size,
                                                     int protection, std::atomic<bool>& damaged,
                                                     std::shared_ptr<MappedBytes> account);
  ~HostMapping() override;
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;

  // Host address of file byte `offset`.
  std::byte* data() const { return base_ + lead_bytes_; }

  const std::shared_ptr<MappingHold>& hold() const { return hold_; }

  // Nobody uses it any more; it is about to be destroyed somewhere else.
  void disown();

 private:
  HostMapping(std::size_t mapped_bytes, std::size_t lead_bytes, std::size_t page_bytes,
              std::shared_ptr<MappedBytes> account)
      : mapped_bytes_(mapped_bytes),
        lead_bytes_(lead_bytes),
        page_bytes_(page_bytes),
        account_(std::move(account)),
        hold_(std::make_shared<MappingHold>()) {}

  std::byte* base_ = nullptr;
  const std::size_t mapped_bytes_;
  const std::size_t lead_bytes_;  // mapped before data()
  const std::size_t page_bytes_;
  const std::shared_ptr<MappedBytes> account_;  // has paid
  const std::shared_ptr<MappingHold> hold_;
  int sigbus_slot_ = -1;
};

}  // namespace pvrdma::guestmem
