// Ring: records on their way from the shard to whoever makes a capture of them. Of fixed size: what finds no
// room is dropped and counted, and nobody waits. Memory is taken and touched when it is made, by the reader's
// thread: the shard faults no page in.
//
// Thread: one writes (the shard), one reads.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "capture/record.h"
#include "guestmem/host_span.h"

namespace pvrdma::capture {

class Ring {
 public:
  static constexpr std::size_t kBytes = 16 * 1024 * 1024;

  // `bytes`: a power of two, for tests.
  explicit Ring(std::size_t bytes = kBytes);

  // --- The shard. ---

  // Keeps the record and, of the payload (null: none) of each of its packets, `snap_bytes` at most. Takes as
  // long as copying that. False: there is no room.
  bool put(Record record, const guestmem::SpanList* payload, std::uint32_t snap_bytes);

  // --- The reader. ---

  // The oldest record and its payload. False: there is none.
  bool take(Record& record, std::vector<std::byte>& payload);

 private:
  void copy_in(std::uint64_t at, const std::byte* from, std::size_t size);
  void copy_out(std::uint64_t at, std::byte* to, std::size_t size) const;

  const std::size_t bytes_;
  const std::unique_ptr<std::byte[]> memory_;
  alignas(64) std::atomic<std::uint64_t> written_{0};  // bytes, for ever
  alignas(64) std::atomic<std::uint64_t> read_{0};
};

}  // namespace pvrdma::capture
