// Ring state, asynchronous events and CQ notifications (docs/device.md sections 4.2 to 4.4 and 7.8).
//
// Thread: plain data and pure functions.
#pragma once

#include <cstdint>
#include <optional>

#include "abi/layout.h"

namespace pvrdma::abi {

// The two counters of one ring. Each is written by one side, with 32-bit atomic stores.
struct RingIndices {
  std::uint32_t prod_tail;
  std::uint32_t cons_head;
};
PVRDMA_ABI_STRUCT(RingIndices, 8);
PVRDMA_ABI_FIELD(RingIndices, prod_tail, 0, 4);
PVRDMA_ABI_FIELD(RingIndices, cons_head, 4, 4);

// The start of page 0 of every ring object. Send queues use tx, all others use rx.
struct RingState {
  RingIndices tx;
  RingIndices rx;
};
PVRDMA_ABI_STRUCT(RingState, 16);
PVRDMA_ABI_FIELD(RingState, tx, 0, 8);
PVRDMA_ABI_FIELD(RingState, rx, 8, 8);

enum class EventType : std::uint32_t {
  kCqErr = 0,
  kQpFatal = 1,
  kQpReqErr = 2,
  kQpAccessErr = 3,
  kCommEst = 4,
  kSqDrained = 5,
  kPathMig = 6,
  kPathMigErr = 7,
  kDeviceFatal = 8,
  kPortActive = 9,
  kPortErr = 10,
  kLidChange = 11,
  kPkeyChange = 12,
  kSmChange = 13,
  kSrqErr = 14,
  kSrqLimitReached = 15,
  kQpLastWqeReached = 16,
  kClientReregister = 17,
  kGidChange = 18,
};

constexpr std::optional<EventType> parse_event_type(std::uint32_t raw) {
  if (raw > static_cast<std::uint32_t>(EventType::kGidChange)) return std::nullopt;
  return static_cast<EventType>(raw);
}

// Element of the asynchronous event ring.
struct AsyncEvent {
  std::uint32_t type;  // EventType
  std::uint32_t info;  // depends on the type: handle of the CQ, QP or SRQ, or port number
};
PVRDMA_ABI_STRUCT(AsyncEvent, 8);
PVRDMA_ABI_FIELD(AsyncEvent, type, 0, 4);
PVRDMA_ABI_FIELD(AsyncEvent, info, 4, 4);

// Element of the CQ notification ring.
struct Notification {
  std::uint32_t info;  // CQ handle
};
PVRDMA_ABI_STRUCT(Notification, 4);
PVRDMA_ABI_FIELD(Notification, info, 0, 4);

// The number of entries that the driver's power-of-two arithmetic really uses of a ring of `nominal` entries.
// For the event and notification rings `nominal` is not a power of two (4.3). The driver's counter i runs i =
// (i + 1) & (2 * nominal - 1) from 0, so it returns to 0 at the lowest clear bit of 2 * nominal - 1. Returns
// 0 for 0.
constexpr std::uint32_t effective_ring_entries(std::uint32_t nominal) {
  return nominal & (~nominal + 1);
}

// The effective entries of a ring of `num_pages` pages, the first of which is the state page. 0 for fewer
// than 2 pages.
template <typename Element>
constexpr std::uint32_t effective_ring_entries_of(std::uint32_t num_pages) {
  if (num_pages < 2) return 0;
  return effective_ring_entries((num_pages - 1) * static_cast<std::uint32_t>(kPageBytes / sizeof(Element)));
}
static_assert(effective_ring_entries_of<AsyncEvent>(4) == 512);
static_assert(effective_ring_entries_of<Notification>(4) == 1024);

}  // namespace pvrdma::abi
