// Slot: one message in a ring (ring.h), and its state.
//
// A state is a position and what has become of the message there. So a slot that still holds the message of
// an earlier lap is recognised, and a compare-exchange never hits a later message in the same slot. Positions
// count modulo 2^30.
//
// The writer writes everything but the state, before it offers the slot. `state` is written by both threads.
// Thread: values.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "transport/transport.h"
#include "verbs/message.h"

namespace pvrdma::transport::siblings {

inline constexpr std::size_t kCacheLine = 64;
inline constexpr std::uint32_t kSlots = 256;
inline constexpr std::uint32_t kInSlotBytesMax = 64;  // of payload; more lies beside the slot

enum class SlotState : std::uint32_t {
  kOffered,  // by the writer
  kTaken,    // the reader copies lent memory
  kDone,     // the reader has copied it
  kRevoked,  // the writer has taken the message back, or did not need to
};

using Position = std::uint32_t;
inline constexpr Position kPositionMask = (1U << 30) - 1;

constexpr Position after(Position at) {
  return (at + 1) & kPositionMask;
}
constexpr Position before(Position at) {
  return (at - 1) & kPositionMask;
}
// How many positions `to` is after `from`.
constexpr std::uint32_t count(Position from, Position to) {
  return (to - from) & kPositionMask;
}
constexpr std::uint32_t to_word(Position at, SlotState state) {
  return at << 2 | static_cast<std::uint32_t>(state);
}
constexpr Position position_of(std::uint32_t word) {
  return word >> 2;
}
constexpr SlotState state_of(std::uint32_t word) {
  return static_cast<SlotState>(word & 3);
}

enum class MessageKind : std::uint8_t { kRequest, kResponse, kDatagram };

// Where the payload is.
enum class Where : std::uint8_t { kInSlot, kBeside, kLent };

union Message {
  Message() {}  // no member: the writer assigns one
  verbs::Request request;
  verbs::Response response;
  verbs::Datagram datagram;
};

struct alignas(kCacheLine) Slot {
  std::atomic<std::uint32_t> state;
  MessageKind kind;
  Where where;
  std::uint8_t span_count;  // kLent
  std::uint32_t dvs;
  std::uint16_t vlan;
  std::uint16_t first;  // kBeside: the first line of the payload; kLent: its first span
  Message message;
  std::array<std::byte, kInSlotBytesMax> payload;  // kInSlot

  SegmentId segment() const { return {dvs, vlan}; }
  std::uint32_t payload_bytes() const {
    switch (kind) {
      case MessageKind::kRequest:
        return message.request.is_read_or_atomic() ? 0 : message.request.bytes;
      case MessageKind::kResponse:
        return message.response.bytes;
      case MessageKind::kDatagram:
        return message.datagram.bytes;
    }
    return 0;
  }
};
static_assert(sizeof(Message) == 112 && offsetof(Slot, message) == 16);
static_assert(sizeof(Slot) == 3 * kCacheLine, "a small message takes three lines");

}  // namespace pvrdma::transport::siblings
