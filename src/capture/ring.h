// Ring: records on their way from the shard to the reader of a capture. Its size is fixed: if it is full, a
// record is dropped and counted, and no thread waits. The constructor, on the reader's thread, allocates and
// touches the memory, so the shard causes no page faults.
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

  // `bytes` must be a power of two. Tests use small rings.
  explicit Ring(std::size_t bytes = kBytes);

  // --- Called by the shard. ---

  // Keeps the record and at most `snap_bytes` of the payload of each of its packets (`payload` null: no
  // payload). The time is that of copying these bytes. False: the ring is full.
  bool put(Record record, const guestmem::SpanList* payload, std::uint32_t snap_bytes);

  // --- Called by the reader. ---

  // Takes the oldest record and its payload. False: the ring is empty.
  bool take(Record& record, std::vector<std::byte>& payload);

 private:
  void copy_in(std::uint64_t at, const std::byte* from, std::size_t size);
  void copy_out(std::uint64_t at, std::byte* to, std::size_t size) const;

  const std::size_t bytes_;
  const std::unique_ptr<std::byte[]> memory_;
  alignas(64) std::atomic<std::uint64_t> written_{0};  // total bytes; never wraps
  alignas(64) std::atomic<std::uint64_t> read_{0};
};

}  // namespace pvrdma::capture
