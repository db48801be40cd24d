// A Snapshot in Prometheus' text format (version 0.0.4). metric_table.h has the metrics. Counters of a group
// are pvrdma_GROUP_COUNTER_total; those in microseconds ("_us") are shown in seconds. Thread: any thread.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/host_read_counters.h"
#include "control/plane/plane.h"
#include "motion/motion_service.h"
#include "snapshots/snapshot.h"
#include "tls/certificates.h"

namespace pvrdma::api {

// Additional values of a cluster member.
struct MemberMetrics {
  control::StoreState store;
  motion::MotionCounters motions;
  std::shared_ptr<const HostReadCounters> reads = std::make_shared<const HostReadCounters>();
};

struct Measured {
  const snapshots::Snapshot& snapshot;
  std::string_view version;
  std::vector<tls::CertificateState> certificates = {};
  std::optional<MemberMetrics> member = std::nullopt;  // empty: the daemon is not a member of a cluster
};
std::string metrics_text(const Measured& measured);

}  // namespace pvrdma::api
