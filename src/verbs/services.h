// Services: what the parts of one engine share. All members are borrowed from the engine. Thread:
// shard-owned.
#pragma once

#include "guestmem/address_space.h"
#include "verbs/counters.h"
#include "verbs/events.h"
#include "verbs/gid_table.h"
#include "verbs/limits.h"
#include "verbs/loans.h"
#include "verbs/memory_region.h"
#include "verbs/object_table.h"
#include "verbs/queue_pair.h"
#include "verbs/scheduler.h"
#include "verbs/turn_share.h"
#include "verbs/wire.h"

namespace pvrdma::verbs {

struct Services {
  const Limits& limits;
  const Rules& rules;
  const guestmem::AddressSpace& memory;
  EventSink& events;
  Wire& wire;
  Counters& counters;
  GidTable& gids;
  MemoryRegionTable& mrs;
  ObjectTable<QueuePair>& qps;
  Scheduler& scheduler;
  TurnShare& share;
  Loans& loans;
};

// The path of a connected QP. Opens the path again if it may have changed.
inline Path& path_of(const Services& services, QueuePair& qp) {
  return services.wire.path(qp.path, [&qp] { return qp.connection(); });
}

}  // namespace pvrdma::verbs
