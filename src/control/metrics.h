// A Snapshot in Prometheus' text format (version 0.0.4). Thread: any thread.
// Names: pvrdma_GROUP_COUNTER_total{adapter="…"} for an adapter's counters, pvrdma_GROUP_COUNTER_total for
// the host's, and the gauges pvrdma_adapter_state, pvrdma_adapter_objects and pvrdma_build_info.
#pragma once

#include <string>
#include <string_view>

#include "control/snapshot.h"

namespace pvrdma::control {

std::string metrics_text(const Snapshot& snapshot, std::string_view version);

}  // namespace pvrdma::control
