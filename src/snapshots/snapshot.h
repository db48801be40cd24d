// Snapshot: the daemon's state at one moment, as plain values, for the API and its metrics. Collected on the
// shard. Thread: values; SnapshotSource any but the shard's.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "adapters/adapter_trouble.h"
#include "base/result.h"
#include "transport/hca/hca_state.h"
#include "transport/tcp/tcp_state.h"
#include "vocabulary/budgets.h"

namespace pvrdma::snapshots {

// One number that only grows.
struct Counter {
  std::string_view name;  // snake_case; static storage
  std::uint64_t value = 0;
};

struct CounterGroup {
  std::string_view name;  // static storage
  std::vector<Counter> counters;
};

// Groups whose counters `budgets` and `totals` have, too.
inline constexpr std::string_view kBudgetRefusals = "budget_refusals";
inline constexpr std::string_view kTotalBudgetRefusals = "total_budget_refusals";

// Groups that a host has as sums, and each shard for itself.
inline constexpr std::string_view kShardCounters = "shard";
inline constexpr std::string_view kRingCounters = "rings";  // only of several shards

struct GidSnapshot {
  std::uint32_t index = 0;
  std::string gid;
  std::string_view roce;  // "v1", "v2"
  std::string lost_to;    // the host that holds it instead; empty: this adapter does
};

struct PathUse {
  std::string_view path;  // "local"
  std::uint64_t messages = 0;
  std::uint64_t payload_bytes = 0;
};

// How many there are now.
struct Gauge {
  std::string_view name;  // static storage
  std::uint64_t value = 0;
};

struct AdapterSnapshot {
  std::string name;
  std::string socket;
  std::string mac;  // "52:54:00:12:34:51"
  std::uint32_t hardware_version = 0;
  std::uint32_t device_version = 0;
  std::string_view roce;         // "v1", "v2"
  std::string_view doorbells;    // "trapped", "mapped"
  std::uint32_t mtu = 0;         // the port's active MTU, bytes
  std::string native_endpoints;  // "on", or "off: " and why
  std::string_view state;        // "off" (no VMM), "detached" (no driver), "attached", "active", "failed"
  bool link_up = false;
  std::uint32_t driver_version = 0;  // 0: no driver
  std::string guest_os;              // empty: no driver
  std::string trouble;               // why the guest's driver cannot work, or lacks memory; else empty
  std::uint64_t memory_bytes = 0;    // of the guest, as mapped
  std::uint64_t pinned_bytes = 0;    // of it, registered with the host's RDMA NIC
  std::string pinned_trouble;        // why not all of it is, although it should
  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t offences = 0;  // turns of its shard that it held up
  std::uint64_t offences_us = 0;
  std::vector<GidSnapshot> gids;
  std::vector<Gauge> objects;  // contexts, PDs, MRs ...
  std::vector<BudgetUse> budgets;
  std::vector<PathUse> paths;
  std::vector<CounterGroup> groups;
};

struct QpSnapshot {
  std::string adapter;
  std::uint32_t qpn = 0;
  std::string_view type;   // "RC", "UD", "GSI"
  std::string_view state;  // "RESET", "INIT", "RTR", "RTS", "SQD", "SQE", "ERR"
  std::string local_gid;   // empty: none yet
  std::string remote_gid;  // empty: not connected
  std::uint32_t remote_qpn = 0;
  std::string peer_host;    // empty: this host, or unknown
  std::string_view path;    // empty: not connected
  std::string path_reason;  // why this path
  std::uint64_t tx_messages = 0;
  std::uint64_t tx_bytes = 0;
  std::uint64_t rx_messages = 0;
  std::uint64_t rx_bytes = 0;
  std::uint64_t retransmits = 0;
};

// One of the threads that serve the adapters.
struct ShardSnapshot {
  std::uint32_t number = 0;
  std::uint32_t cpu = 0;           // on which it ran when it was asked
  std::uint64_t cpu_us = 0;        // CPU time of the thread
  std::uint32_t busy_percent = 0;  // shard::Loop::busy_percent()
  std::vector<std::string> adapters = {};
  std::vector<CounterGroup> groups = {};
  bool is_ward = false;      // the daemon moves adapters there that delay others
  std::string trouble = {};  // the ward does not answer; empty: it does
};

struct Snapshot {
  std::vector<AdapterSnapshot> adapters;
  std::vector<adapters::AdapterTrouble> not_served;
  std::vector<QpSnapshot> qps;
  transport::TcpState tcp;
  transport::HcaState hca;
  std::vector<BudgetUse> totals;   // of all adapters together
  std::vector<CounterGroup> host;  // counters that belong to no adapter
  std::vector<ShardSnapshot> shards;
};

// An adapter may have tens of thousands of QPs, so they are listed only on request.
enum class SnapshotDetail : std::uint8_t { kAdapters, kAdaptersAndQps };

// Takes snapshots by asking the shard. ShardSnapshots implements it.
class SnapshotSource {
 public:
  virtual ~SnapshotSource() = default;
  // Blocks for a bounded time. kUnavailable: the shard is stopping, or it did not answer in time.
  virtual Result<Snapshot> take_snapshot(SnapshotDetail detail) = 0;
};

}  // namespace pvrdma::snapshots
