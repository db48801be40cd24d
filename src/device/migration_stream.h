// MigrationStream: an adapter's saved state while a client reads or writes it by MIG_DATA messages.
//
// A state is saved and loaded in parts, in the adapter's turns. So others are served in between, and memory
// is needed for one message and one record only. The record of a memory region is the largest.
//
// Written bytes are not checked here. They come from another host and may be anything, so their number is
// bounded. Memory for them is taken in steps as they come. A large stream is released in the reaper's queue.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "base/reaper.h"
#include "state/writer.h"
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
  // Writes the next record. False: all are written.
  using WriteNext = std::function<bool(state::Writer& writer)>;
  // After begin(): offers what `writer` has, and then what `write_next` writes.
  void offer(state::Writer writer, WriteNext write_next);
  // Whether there are fewer bytes to read than one message may want, and more can be written.
  bool is_behind() const;
  // Writes the next record to be read. As for read(), if memory runs out.
  void write_ahead();
  // Reads the next bytes and returns their number. At the end there are fewer than `out` has. If memory runs
  // out (bad_alloc), the stream is of no use any more.
  std::size_t read(std::span<std::byte> out);
  // How many bytes of the offered state have been written so far; 0: no state is offered.
  std::uint64_t saved_bytes() const;

  // Appends `data` to the written bytes, of which there may be at most `bytes_max`. Returns 0, or an error
  // without adding any byte: ENOSPC, EBUSY (as begin()) or ENOMEM.
  int write(std::span<const std::byte> data, std::uint64_t bytes_max);
  // Those that are not dropped. Valid until the next call.
  std::span<const std::byte> written() const;
  void drop_front(std::size_t bytes);
  // How many bytes were written, with those that are dropped.
  std::uint64_t written_bytes() const;

  // Removes all bytes, offered or written.
  void clear();

 private:
  struct Held;

  const std::shared_ptr<ReaperQueue> queue_;
  verbs::HostAccount* const host_;  // null: no bound
  std::unique_ptr<Held> held_;      // null: the stream is empty
};

}  // namespace pvrdma::device
