#include "api/metrics.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <set>
#include <sstream>

#include "api/metric_table.h"
#include "snapshots/counter_groups.h"

namespace pvrdma::api {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Metrics, GroupsTheSamplesOfAMetricUnderItsHelpAndType) {
  snapshots::Snapshot snapshot;
  for (const char* name : {"VM-01", "VM-02"}) {
    snapshots::AdapterSnapshot adapter;
    adapter.name = name;
    adapter.state = "active";
    adapter.pinned_bytes = 8192;
    adapter.objects = {{"qps", 2}};
    adapter.groups = {{"verbs", {{"tx_bytes", 5}}}};
    snapshot.adapters.push_back(adapter);
  }
  snapshot.host = {{"switch", {{"duplicate_gids_refused", 1}}}};
  EXPECT_EQ(
      metrics_text({snapshot, "1.2.3", {{"tcp", "/a", 1767225600}, {"api", "/b", 5}}}),
      "# HELP pvrdma_adapter_objects Objects that the guest has now, by kind\n"
      "# TYPE pvrdma_adapter_objects gauge\n"
      "pvrdma_adapter_objects{adapter=\"VM-01\",kind=\"qps\"} 2\n"
      "pvrdma_adapter_objects{adapter=\"VM-02\",kind=\"qps\"} 2\n"
      "# HELP pvrdma_adapter_pinned_bytes Memory of the VM that is registered with the host's RDMA NIC\n"
      "# TYPE pvrdma_adapter_pinned_bytes gauge\n"
      "pvrdma_adapter_pinned_bytes{adapter=\"VM-01\"} 8192\n"
      "pvrdma_adapter_pinned_bytes{adapter=\"VM-02\"} 8192\n"
      "# HELP pvrdma_adapter_state 1 for the state of the adapter: off, detached, attached, active or "
      "failed\n"
      "# TYPE pvrdma_adapter_state gauge\n"
      "pvrdma_adapter_state{adapter=\"VM-01\",state=\"active\"} 1\n"
      "pvrdma_adapter_state{adapter=\"VM-02\",state=\"active\"} 1\n"
      "# HELP pvrdma_build_info 1; the label has the version of pvrdmad\n"
      "# TYPE pvrdma_build_info gauge\n"
      "pvrdma_build_info{version=\"1.2.3\"} 1\n"
      "# HELP pvrdma_certificate_not_after_seconds When the certificate expires, in seconds since 1970; the "
      "label has the table of the configuration\n"
      "# TYPE pvrdma_certificate_not_after_seconds gauge\n"
      "pvrdma_certificate_not_after_seconds{use=\"tcp\"} 1767225600\n"
      "pvrdma_certificate_not_after_seconds{use=\"api\"} 5\n"
      "# HELP pvrdma_switch_duplicate_gids_refused_total GIDs that were refused because another adapter "
      "holds them\n"
      "# TYPE pvrdma_switch_duplicate_gids_refused_total counter\n"
      "pvrdma_switch_duplicate_gids_refused_total 1\n"
      "# HELP pvrdma_verbs_tx_bytes_total Payload that was sent or, for reads, fetched from the peer\n"
      "# TYPE pvrdma_verbs_tx_bytes_total counter\n"
      "pvrdma_verbs_tx_bytes_total{adapter=\"VM-01\"} 5\n"
      "pvrdma_verbs_tx_bytes_total{adapter=\"VM-02\"} 5\n");
}

TEST(Metrics, ShowsBudgetsInBaseUnits) {
  snapshots::Snapshot snapshot;
  snapshots::AdapterSnapshot& adapter = snapshot.adapters.emplace_back();
  adapter.name = "VM-01";
  adapter.state = "active";
  adapter.budgets = {{Budget::kQps, 2, 64, 7},
                     {Budget::kRegistered, 3, kNoBudget / (1 << 20), 0},
                     {Budget::kMapped, 0, kNoBudget / (1 << 20) + 1, 0},
                     {Budget::kCommands, 5, kNoBudget, 0}};
  adapter.groups = {snapshots::budget_group(snapshots::kBudgetRefusals, adapter.budgets)};
  snapshot.totals = {{Budget::kRings, 4, 100, 1}};
  snapshot.host = {snapshots::budget_group(snapshots::kTotalBudgetRefusals, snapshot.totals)};
  const std::string text = metrics_text({snapshot, "1.2.3"});
  for (const char* line : {"pvrdma_adapter_budget_limit{adapter=\"VM-01\",budget=\"qps\"} 64\n",
                           "pvrdma_adapter_budget_use{adapter=\"VM-01\",budget=\"qps\"} 2\n",
                           "pvrdma_adapter_budget_refusals_total{adapter=\"VM-01\",budget=\"qps\"} 7\n",
                           "_use{adapter=\"VM-01\",budget=\"registered_bytes\"} 3145728\n",
                           "_limit{adapter=\"VM-01\",budget=\"registered_bytes\"} 18446744073708503040\n",
                           "_limit{adapter=\"VM-01\",budget=\"mapped_bytes\"} +Inf\n",
                           "_use{adapter=\"VM-01\",budget=\"commands_per_second\"} 5\n",
                           "_limit{adapter=\"VM-01\",budget=\"commands_per_second\"} +Inf\n",
                           "pvrdma_budget_use{budget=\"rings_bytes\"} 4194304\n",
                           "pvrdma_budget_limit{budget=\"rings_bytes\"} 104857600\n",
                           "pvrdma_budget_refusals_total{budget=\"rings_bytes\"} 1\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
}

TEST(Metrics, ShowsEachShardForItselfInsteadOfTheirSum) {
  snapshots::Snapshot snapshot;
  const auto groups = [](std::uint64_t turns, std::uint64_t lost) {
    return std::vector{snapshots::shard_group({.turns = turns}), snapshots::ring_group({.lost = lost})};
  };
  snapshot.host = groups(30, 3);
  snapshot.shards = {{.number = 0, .cpu_us = 1'500'000, .adapters = {"VM-01"}, .groups = groups(10, 1)},
                     {.number = 1, .groups = groups(20, 2)}};
  const std::string text = metrics_text({snapshot, "1.2.3"});
  for (const char* lines :
       {"\npvrdma_shard_turns_total{shard=\"0\"} 10\npvrdma_shard_turns_total{shard=\"1\"} 20\n",
        "\npvrdma_rings_lost_total{shard=\"0\"} 1\npvrdma_rings_lost_total{shard=\"1\"} 2\n",
        "\npvrdma_shard_adapters{shard=\"0\"} 1\npvrdma_shard_adapters{shard=\"1\"} 0\n",
        "\npvrdma_shard_cpu_seconds_total{shard=\"0\"} 1.500000\n"}) {
    EXPECT_THAT(text, HasSubstr(lines));
  }
  EXPECT_THAT(text, Not(HasSubstr("pvrdma_shard_turns_total 30")));
}

TEST(Metrics, TellsAboutTheClusterOfAMember) {
  snapshots::Snapshot snapshot;
  snapshot.tcp.peers = {{"esx-02", 4, 3, 2, ""}, {"esx-03", 0, 0, 9, "refused"}};
  control::StoreState store;
  store.connected = true;
  store.edits = 5;
  const auto reads = std::make_shared<HostReadCounters>();
  reads->answered = 7;
  reads->failed = 1;
  reads->served = 4;
  const std::string text =
      metrics_text({snapshot, "1.2.3", {}, MemberMetrics{store, {.left = 2, .pause_us = 1'000'040}, reads}});
  for (const char* line : {"\npvrdma_host_reads_served_total 4\n",
                           "\npvrdma_host_reads_total{outcome=\"answered\"} 7\n"
                           "pvrdma_host_reads_total{outcome=\"refused\"} 0\n"
                           "pvrdma_host_reads_total{outcome=\"failed\"} 1\n",
                           "\npvrdma_motion_left_total 2\n", "\npvrdma_motion_pause_seconds_total 1.000040\n",
                           "\npvrdma_store_connected 1\n", "\npvrdma_store_edits_total 5\n",
                           "pvrdma_tcp_lanes_up{peer=\"esx-02\"} 4\npvrdma_tcp_lanes_up{peer=\"esx-03\"} 0\n",
                           "\npvrdma_tcp_listening 0\n"}) {
    EXPECT_THAT(text, HasSubstr(line));
  }
  EXPECT_THAT(metrics_text({snapshot, "1.2.3"}), Not(HasSubstr("pvrdma_store_connected")));
}

// Each group that the daemon can show, and one object of each kind.
std::string everything() {
  const std::vector<BudgetUse> budgets{{Budget::kQps, 1, 2, 3}};
  snapshots::Snapshot snapshot;
  snapshots::AdapterSnapshot& adapter = snapshot.adapters.emplace_back();
  adapter.objects = {{"qps", 1}};
  adapter.budgets = budgets;
  adapter.paths = {{"tcp", 1, 2}};
  adapter.groups = {snapshots::verbs_group({}), snapshots::device_group({}),
                    snapshots::command_error_group({}),
                    snapshots::budget_group(snapshots::kBudgetRefusals, budgets), snapshots::port_group({})};
  snapshot.totals = budgets;
  snapshot.tcp.peers = {{}};
  snapshot.hca.peers = {{}};
  snapshot.host = {{"switch", {{"duplicate_gids_refused"}, {"foreign_gids_refused"}, {"gids_lost"}}},
                   {"placement", {{"moves"}, {"own_moves"}, {"ward_moves"}}},
                   {"sandbox", {{"refused_calls"}}},
                   snapshots::transport_group("local", {}),
                   snapshots::budget_group(snapshots::kTotalBudgetRefusals, budgets),
                   snapshots::tcp_group({}, {}),
                   snapshots::hca_group({})};
  snapshot.shards = {{.groups = {snapshots::shard_group({}), snapshots::ring_group({})}}};
  for (auto& group : snapshots::roce_groups({})) snapshot.host.push_back(std::move(group));
  return metrics_text({snapshot, "1", {{"api", "/a", 1}}, MemberMetrics{}});
}

TEST(MetricTable, HasTheMetricsThatAreShownAndNoOther) {
  std::set<std::string> shown;
  std::istringstream lines(everything());
  for (std::string line; std::getline(lines, line);) {
    if (!line.starts_with('#')) shown.insert(line.substr(0, line.find_first_of("{ ")));
  }
  std::set<std::string> listed;
  for (const MetricInfo& metric : metric_table()) listed.emplace(metric.name);
  EXPECT_EQ(shown, listed);
}

// The rules of promtool check metrics; `make test-full` also runs that program (tests/cli/test_promtool.py).
TEST(MetricTable, FollowsTheConventionsOfPrometheus) {
  const auto has_part = [](std::string_view name, std::string_view part) {
    const std::string between = "_" + std::string(part) + "_";
    return ("_" + std::string(name) + "_").find(between) != std::string::npos;
  };
  for (const MetricInfo& metric : metric_table()) {
    SCOPED_TRACE(metric.name);
    EXPECT_EQ(metric.name.find_first_not_of("abcdefghijklmnopqrstuvwxyz_"), std::string_view::npos);
    EXPECT_TRUE(metric.name.starts_with("pvrdma_"));
    std::string_view base = metric.name;
    EXPECT_EQ(base.ends_with("_total"), metric.type == MetricType::kCounter);
    if (base.ends_with("_total")) base.remove_suffix(6);
    for (const char* unit : {"bytes", "seconds"}) {
      EXPECT_EQ(base.ends_with(std::string("_") + unit), metric.unit == unit) << unit;
    }
    for (const char* part : {"s",     "ms",        "us",           "ns",           "sec",  "b",
                             "kb",    "mb",        "gb",           "tb",           "pb",   "m",
                             "h",     "d",         "kib",          "mib",          "gib",  "minutes",
                             "hours", "days",      "milliseconds", "microseconds", "bits", "counter",
                             "gauge", "histogram", "summary"}) {
      EXPECT_FALSE(has_part(metric.name, part)) << part;
    }
    for (const char* reserved : {"_count", "_sum", "_bucket"}) EXPECT_FALSE(base.ends_with(reserved));
    EXPECT_FALSE(metric.help.empty());
    EXPECT_EQ(metric.help.find_first_of("\\\"\n|"), std::string_view::npos);
    EXPECT_FALSE(metric.help.ends_with('.'));
  }
}

}  // namespace
}  // namespace pvrdma::api
