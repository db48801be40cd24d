// The counters of an adapter's device side: plain integers, read by the shard's snapshot. Thread:
// shard-owned.
#pragma once

#include <cstdint>

#include "verbs/status.h"

namespace pvrdma::device {

// Commands refused, by reason.
struct CommandErrors {
  std::uint64_t not_ready = 0;  // no shared region, not activated, or the slots are not guest memory
  std::uint64_t no_such_object = 0;
  std::uint64_t busy = 0;
  std::uint64_t no_memory = 0;
  std::uint64_t bad_address = 0;
  std::uint64_t invalid = 0;
  std::uint64_t not_permitted = 0;
  std::uint64_t not_supported = 0;
  std::uint64_t address_in_use = 0;

  void count(verbs::CommandError why) {
    switch (why) {
      case verbs::CommandError::kNoSuchObject:
        ++no_such_object;
        return;
      case verbs::CommandError::kBusy:
        ++busy;
        return;
      case verbs::CommandError::kNoMemory:
        ++no_memory;
        return;
      case verbs::CommandError::kBadAddress:
        ++bad_address;
        return;
      case verbs::CommandError::kInvalid:
        ++invalid;
        return;
      case verbs::CommandError::kNotPermitted:
        ++not_permitted;
        return;
      case verbs::CommandError::kNotSupported:
        ++not_supported;
        return;
      case verbs::CommandError::kAddressInUse:
        ++address_in_use;
        return;
    }
  }
  std::uint64_t total() const {
    return not_ready + no_such_object + busy + no_memory + bad_address + invalid + not_permitted +
           not_supported + address_in_use;
  }
};

struct Counters {
  std::uint64_t commands = 0;  // REQUEST writes, including refused ones
  CommandErrors command_errors;
  std::uint64_t doorbells = 0;  // doorbell words written
  std::uint64_t interrupts = 0;
  std::uint64_t slow_interrupts = 0;   // signals after which a thread makes the next ones
  std::uint64_t notifications = 0;     // CQ notifications put into the guest's ring
  std::uint64_t async_events = 0;      // events put into the guest's ring
  std::uint64_t events_held_back = 0;  // notifications and events that had to wait for room
  std::uint64_t events_dropped = 0;    // events lost because the queue for held-back events was full, too
  std::uint64_t invalid_event_indices = 0;
  std::uint64_t bad_accesses = 0;  // accesses whose width, alignment or place fits no register or doorbell
  std::uint64_t posted_register_writes = 0;  // posted writes to BAR 1 (reference 8.5)
  std::uint64_t shared_region_errors = 0;
  std::uint64_t resets = 0;
  std::uint64_t connections = 0;
  std::uint64_t qp_failures = 0;  // QPs that failed without a command
  std::uint64_t offences = 0;     // turns of a shard of this host that it made long
  std::uint64_t offences_us = 0;  // for how long
};

}  // namespace pvrdma::device
