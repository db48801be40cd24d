// A Snapshot in Prometheus' text format (version 0.0.4). Thread: any thread.
// Names: pvrdma_GROUP_COUNTER_total{adapter="…"} for an adapter's counters, pvrdma_GROUP_COUNTER_total for
// the host's counters, and the gauges pvrdma_adapter_state, pvrdma_adapter_objects and pvrdma_build_info. For
// each budget: pvrdma_adapter_budget_use and pvrdma_adapter_budget_limit{adapter="…",budget="qps"}; for all
// adapters together pvrdma_budget_use and pvrdma_budget_limit{budget="total_qps"}. For each path:
// pvrdma_path_messages_total and pvrdma_path_payload_bytes_total{adapter="…",path="tcp"}. A member of a
// cluster also has pvrdma_store_connected, pvrdma_store_*_total, pvrdma_motion_*_total, pvrdma_tcp_listening
// and pvrdma_hca_pinned_bytes; for each peer it has pvrdma_tcp_lanes_up, pvrdma_tcp_sessions_up,
// pvrdma_tcp_reconnects_total, pvrdma_hca_up and pvrdma_hca_peer_falls_total.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "control/plane/plane.h"
#include "motion/motion_service.h"
#include "snapshots/snapshot.h"

namespace pvrdma::api {

// Additional values of a cluster member.
struct MemberMetrics {
  control::StoreState store;
  motion::MotionCounters motions;
};

// `member` is empty if the daemon is not a member of a cluster.
std::string metrics_text(const snapshots::Snapshot& snapshot, std::string_view version,
                         const std::optional<MemberMetrics>& member = std::nullopt);

}  // namespace pvrdma::api
