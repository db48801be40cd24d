#include "api/metrics.h"

#include <gtest/gtest.h>

namespace pvrdma::api {
namespace {

TEST(Metrics, GroupsTheSamplesOfAMetricUnderItsType) {
  snapshots::Snapshot snapshot;
  for (const char* name : {"VM-01", "VM-02"}) {
    snapshots::AdapterSnapshot adapter;
    adapter.name = name;
    adapter.state = "active";
    adapter.pinned_bytes = 8192;
    adapter.objects = {{"qps", 2}};
    adapter.budgets = {{Budget::kQps, 2, 64, 0}};
    adapter.groups = {{"verbs", {{"tx_bytes", 5}}}};
    snapshot.adapters.push_back(adapter);
  }
  snapshot.host = {{"switch", {{"duplicate_gids_refused", 1}}}};
  snapshot.totals = {{Budget::kQps, 4, 100, 0}};
  EXPECT_EQ(metrics_text(snapshot, "1.2.3"),
            "# TYPE pvrdma_adapter_budget_limit gauge\n"
            "pvrdma_adapter_budget_limit{adapter=\"VM-01\",budget=\"qps\"} 64\n"
            "pvrdma_adapter_budget_limit{adapter=\"VM-02\",budget=\"qps\"} 64\n"
            "# TYPE pvrdma_adapter_budget_use gauge\n"
            "pvrdma_adapter_budget_use{adapter=\"VM-01\",budget=\"qps\"} 2\n"
            "pvrdma_adapter_budget_use{adapter=\"VM-02\",budget=\"qps\"} 2\n"
            "# TYPE pvrdma_adapter_objects gauge\n"
            "pvrdma_adapter_objects{adapter=\"VM-01\",kind=\"qps\"} 2\n"
            "pvrdma_adapter_objects{adapter=\"VM-02\",kind=\"qps\"} 2\n"
            "# TYPE pvrdma_adapter_pinned_bytes gauge\n"
            "pvrdma_adapter_pinned_bytes{adapter=\"VM-01\"} 8192\n"
            "pvrdma_adapter_pinned_bytes{adapter=\"VM-02\"} 8192\n"
            "# TYPE pvrdma_adapter_state gauge\n"
            "pvrdma_adapter_state{adapter=\"VM-01\",state=\"active\"} 1\n"
            "pvrdma_adapter_state{adapter=\"VM-02\",state=\"active\"} 1\n"
            "# TYPE pvrdma_budget_limit gauge\n"
            "pvrdma_budget_limit{budget=\"total_qps\"} 100\n"
            "# TYPE pvrdma_budget_use gauge\n"
            "pvrdma_budget_use{budget=\"total_qps\"} 4\n"
            "# TYPE pvrdma_build_info gauge\n"
            "pvrdma_build_info{version=\"1.2.3\"} 1\n"
            "# TYPE pvrdma_switch_duplicate_gids_refused_total counter\n"
            "pvrdma_switch_duplicate_gids_refused_total 1\n"
            "# TYPE pvrdma_verbs_tx_bytes_total counter\n"
            "pvrdma_verbs_tx_bytes_total{adapter=\"VM-01\"} 5\n"
            "pvrdma_verbs_tx_bytes_total{adapter=\"VM-02\"} 5\n");
}

TEST(Metrics, TellsAboutTheClusterOfAMember) {
  snapshots::Snapshot snapshot;
  snapshot.tcp.peers = {{"esx-02", 4, 3, 2, ""}, {"esx-03", 0, 0, 9, "refused"}};
  control::StoreState store;
  store.connected = true;
  store.edits = 5;
  const std::string text = metrics_text(snapshot, "1.2.3", MemberMetrics{store, {.left = 2, .pause_us = 40}});
  EXPECT_NE(text.find("# TYPE pvrdma_motion_left_total counter\npvrdma_motion_left_total 2\n"),
            std::string::npos);
  EXPECT_NE(text.find("pvrdma_motion_pause_us_total 40\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE pvrdma_store_connected gauge\npvrdma_store_connected 1\n"), std::string::npos);
  EXPECT_NE(text.find("# TYPE pvrdma_store_edits_total counter\npvrdma_store_edits_total 5\n"),
            std::string::npos);
  EXPECT_NE(text.find("# TYPE pvrdma_tcp_lanes_up gauge\n"
                      "pvrdma_tcp_lanes_up{peer=\"esx-02\"} 4\n"
                      "pvrdma_tcp_lanes_up{peer=\"esx-03\"} 0\n"),
            std::string::npos);
  EXPECT_NE(text.find("pvrdma_tcp_listening 0\n"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::api
