#include "control/metrics.h"

#include <gtest/gtest.h>

namespace pvrdma::control {
namespace {

TEST(Metrics, GroupsTheSamplesOfAMetricUnderItsType) {
  Snapshot snapshot;
  for (const char* name : {"VM-01", "VM-02"}) {
    AdapterSnapshot adapter;
    adapter.name = name;
    adapter.state = "active";
    adapter.objects = {{"qps", 2}};
    adapter.groups = {{"verbs", {{"tx_bytes", 5}}}};
    snapshot.adapters.push_back(adapter);
  }
  snapshot.host = {{"switch", {{"duplicate_gids_refused", 1}}}};
  EXPECT_EQ(metrics_text(snapshot, "1.2.3"),
            "# TYPE pvrdma_adapter_objects gauge\n"
            "pvrdma_adapter_objects{adapter=\"VM-01\",kind=\"qps\"} 2\n"
            "pvrdma_adapter_objects{adapter=\"VM-02\",kind=\"qps\"} 2\n"
            "# TYPE pvrdma_adapter_state gauge\n"
            "pvrdma_adapter_state{adapter=\"VM-01\",state=\"active\"} 1\n"
            "pvrdma_adapter_state{adapter=\"VM-02\",state=\"active\"} 1\n"
            "# TYPE pvrdma_build_info gauge\n"
            "pvrdma_build_info{version=\"1.2.3\"} 1\n"
            "# TYPE pvrdma_switch_duplicate_gids_refused_total counter\n"
            "pvrdma_switch_duplicate_gids_refused_total 1\n"
            "# TYPE pvrdma_verbs_tx_bytes_total counter\n"
            "pvrdma_verbs_tx_bytes_total{adapter=\"VM-01\"} 5\n"
            "pvrdma_verbs_tx_bytes_total{adapter=\"VM-02\"} 5\n");
}

}  // namespace
}  // namespace pvrdma::control
