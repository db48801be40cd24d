// MigrationStream: an adapter's saved state while a client reads or writes it by MIG_DATA messages.
//
// Written bytes are not checked here. They come from another host and may be anything, so their number is
// bounded. Memory for them is taken in steps as they come, and is never copied. A large stream is released in
// the reaper's queue.
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

  // Without a queue, memory is released in place. `host` is borrowed and bounds the number of streams that
  // are not empty; null: no bound.
  MigrationStream(std::shared_ptr<ReaperQueue> queue, verbs::HostAccount* host);
  ~MigrationStream();
  MigrationStream(const MigrationStream&) = delete;
  MigrationStream& operator=(const MigrationStream&) = delete;

  // Empties the stream and reserves its place. False: the host has too many streams. May throw bad_alloc,
  // with the same effect as false.
  [[nodiscard]] bool begin();
  // After begin(): offers `state` to be read from its start.
  void offer(std::vector<std::byte> state);
  // Reads the next bytes and returns their number. At the end there are fewer than `out` has.
  std::size_t read(std::span<std::byte> out);

  // Appends `data` to the written bytes, of which there may be at most `bytes_max`. Returns 0, or an error
  // without adding any byte: ENOSPC, EBUSY (as begin()) or ENOMEM.
  int write(std::span<const std::byte> data, std::uint64_t bytes_max);
  // Valid until the next call.
  std::span<const std::byte> written() const;

  // Removes all bytes, offered or written.
  void clear();

 private:
  struct Held;

  const std::shared_ptr<ReaperQueue> queue_;
  verbs::HostAccount* const host_;  // null: no bound
  std::unique_ptr<Held> held_;      // null: the stream is empty
};

}  // namespace pvrdma::device
