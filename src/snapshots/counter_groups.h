// The counters of each layer by name, for listings and metrics. No counter can be missing: the .cc asserts
// it. Thread: values.
#pragma once

#include <cstdint>
#include <string_view>

#include "device/counters.h"
#include "fabric/port.h"
#include "shard/loop.h"
#include "snapshots/snapshot.h"
#include "transport/hca/hca.h"
#include "transport/roce/roce.h"
#include "transport/siblings/siblings.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"
#include "verbs/counters.h"

namespace pvrdma::snapshots {

struct RoceCounts {
  transport::Counters messages;
  roce::Counters packets;
  transport::RoceErrors errors;
  transport::roce::LinkCounters links;
};
// "roce" and "roce_dropped".
std::vector<CounterGroup> roce_groups(const RoceCounts& counts);

CounterGroup verbs_group(const verbs::Counters& counters);
CounterGroup device_group(const device::Counters& counters);
CounterGroup command_error_group(const device::CommandErrors& counters);
// How often each budget refused a request. "total_budget_refusals" are those of the budgets of all adapters
// together.
CounterGroup budget_group(std::string_view name, const std::vector<BudgetUse>& budgets);
CounterGroup port_group(const fabric::PortCounters& counters);
// `name` is the transport's name, in static storage.
CounterGroup transport_group(std::string_view name, const transport::Counters& counters);
// All counters of the transport between hosts.
CounterGroup tcp_group(const transport::Counters& counters, const transport::TcpErrors& errors);
struct HcaCounts {
  transport::Counters messages;
  transport::HcaBulk bulk;
  transport::HcaErrors errors;
};
CounterGroup hca_group(const HcaCounts& counts);
CounterGroup shard_group(const shard::LoopCounters& counters);
CounterGroup ring_group(const transport::Siblings::RingCounters& counters);

}  // namespace pvrdma::snapshots
