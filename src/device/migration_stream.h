// MigrationStream: an adapter's saved state on its way through a client's MIG_DATA messages: what is left to
// read, or what was written so far.
//
// What was written is not looked at: it is another host's, may be anything, and is bounded. Its memory is
// taken in steps, as it comes, and never copied as it grows. A large one ends in the reaper's queue.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "base/reaper.h"
#include "verbs/host_account.h"

namespace pvrdma::device {

class MigrationStream {
 public:
  static constexpr std::size_t kStepBytes = 1u << 20;

  // No queue: memory is given back in place. `host`, which bounds how many there are with something in them,
  // is borrowed; null: nothing does.
  MigrationStream(std::shared_ptr<ReaperQueue> queue, verbs::HostAccount* host);
  ~MigrationStream();
  MigrationStream(const MigrationStream&) = delete;
  MigrationStream& operator=(const MigrationStream&) = delete;

  // Empty, and sure of its place. False: the host has too many. Throws bad_alloc, as false then.
  [[nodiscard]] bool begin();
  // After begin(): `state` is to be read, from its begin.
  void offer(std::vector<std::byte> state);
  // The next bytes; how many: fewer than `out` has at the end.
  std::size_t read(std::span<std::byte> out);

  // Adds `data` to what was written, of which there may be `bytes_max` in all. 0, or ENOSPC, EBUSY
  // (as begin()) or ENOMEM: nothing of it was added.
  int write(std::span<const std::byte> data, std::uint64_t bytes_max);
  // Until the next call.
  std::span<const std::byte> written() const;

  // Nothing is to be read, and nothing written.
  void clear();

 private:
  struct Held;

  const std::shared_ptr<ReaperQueue> queue_;
  verbs::HostAccount* const host_;  // null: none
  std::unique_ptr<Held> held_;      // null: nothing
};

}  // namespace pvrdma::device
