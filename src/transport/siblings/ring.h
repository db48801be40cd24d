// Ring: carries messages from one shard (the writer) to another one of the same host (the reader), without
// locks, allocations and system calls.
//
// Up to 64 bytes of payload lie in the slot, up to 512 beside it. More may be *lent*: the slot names the
// memory of the sender's guest, and the reader copies from there when its engine says where to. So a guest's
// memory is only written by the thread of its own shard.
//
// The writer may *revoke* what it has sent. A reader touches lent memory only between the compare-exchange
// that takes the slot and the store that says that it is done. So when RingWriter::revoke() has returned, the
// reader touches the memory no more.
//
// RingWriter and RingReader are the two ends; each has variables of its own. Here is what both use. Thread:
// as each member says.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "guestmem/host_span.h"
#include "transport/siblings/slot.h"

namespace pvrdma::transport::siblings {

inline constexpr std::uint32_t kSpans = 4096;
inline constexpr std::uint32_t kLines = 1024;         // of the copies: 64 KiB
inline constexpr std::uint32_t kCopyBytesMax = 4096;  // of one message

struct Ring {
  // `first` is the position of the first message.
  explicit Ring(Position first = 0) : head(first) {
    for (std::uint32_t i = 0; i < kSlots; ++i) {
      const Position lap_before = (first + i - kSlots) & kPositionMask;
      slots[(first + i) % kSlots].state.store(to_word(lap_before, SlotState::kDone),
                                              std::memory_order_relaxed);
    }
  }
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  std::array<Slot, kSlots> slots;
  // Written by the writer, and read by the reader of a slot that names them.
  alignas(kCacheLine) std::array<guestmem::HostSpan, kSpans> spans;
  alignas(kCacheLine) std::array<std::array<std::byte, kCacheLine>, kLines> lines;
  // Written by the reader: all before it is read.
  alignas(kCacheLine) std::atomic<Position> head;
  // Written by the writer alone: it waits for room. A reader that cleared it could clear a wait that began
  // after the head that it has published (tests/model/siblings_sleep.h).
  alignas(kCacheLine) std::atomic<std::uint32_t> writer_waits = 0;
  // How often the writer has revoked answers, which it alone writes.
  std::atomic<std::uint32_t> restored = 0;
};
static_assert(kSlots * 4 == kLines && kPositionMask % kSlots == kSlots - 1);

}  // namespace pvrdma::transport::siblings
