// HostMapping: owns one shared mapping of a VMM's memory file and its entry in the SIGBUS table.
//
// Only memfd, tmpfs and hugetlbfs files are accepted: a page fault on any other (FUSE, a slow disk) could
// stall the shard for as long as the VMM likes. On hugetlbfs the mapping begins and ends on the file's huge
// pages, because mmap insists on it, and so may be longer than what was asked for on both sides. Thread:
// control of its owner; a resource, does not move.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::guestmem {

class HostMapping {
 public:
  // Maps `size` bytes of `fd` from `offset` on with the given mmap protection. `damaged` is borrowed,
  // outlives the mapping and is set when a page of it vanishes. Errors: EOPNOTSUPP for another kind of file,
  // EINVAL when it ends before offset + size, ENOSPC when the SIGBUS table is full, else what the system
  // calls said.
  static Result<std::unique_ptr<HostMapping>> create(const Fd& fd, std::uint64_t offset, std::uint64_t size,
                                                     int protection, std::atomic<bool>& damaged);
  ~HostMapping();
  HostMapping(const HostMapping&) = delete;
  HostMapping& operator=(const HostMapping&) = delete;

  // Host address of file byte `offset`.
  std::byte* data() const { return base_ + lead_bytes_; }

 private:
  HostMapping(std::byte* base, std::size_t mapped_bytes, std::size_t lead_bytes)
      : base_(base), mapped_bytes_(mapped_bytes), lead_bytes_(lead_bytes) {}

  std::byte* base_;
  std::size_t mapped_bytes_;
  std::size_t lead_bytes_;  // mapped before data()
  int sigbus_slot_ = -1;
};

}  // namespace pvrdma::guestmem
