#include "api/metrics.h"

#include <algorithm>
#include <fmt/format.h>
#include <initializer_list>

#include "api/metric_table.h"
#include "base/check.h"

namespace pvrdma::api {
namespace {

constexpr std::uint64_t kMib = 1 << 20;

std::string seconds(std::uint64_t us) {
  return fmt::format("{}.{:06}", us / 1'000'000, us % 1'000'000);
}

// Removes `ending` if the text ends with it.
bool take_ending(std::string_view& text, std::string_view ending) {
  if (!text.ends_with(ending)) return false;
  text.remove_suffix(ending.size());
  return true;
}

// The format requires all samples of one metric together, under its HELP and TYPE. Names of adapters and
// hosts, states and versions need no escaping (config.h says which characters names have).
class Exposition {
 public:
  using Values = std::initializer_list<std::string_view>;

  // `labels` has a value for each label of the metric.
  void add(std::string_view name, Values labels, std::uint64_t value) {
    add(name, labels, fmt::to_string(value));
  }
  void add(std::string_view name, Values labels, const std::string& value) {
    const auto row =
        std::lower_bound(metrics_.begin(), metrics_.end(), name,
                         [](const MetricInfo& each, std::string_view wanted) { return each.name < wanted; });
    PVRDMA_CHECK(row != metrics_.end() && row->name == name, "a metric without a row");
    samples_[static_cast<std::size_t>(row - metrics_.begin())] +=
        fmt::format("{}{} {}\n", name, label_set(*row, labels), value);
  }
  void group(const snapshots::CounterGroup& group, Values labels) {
    for (const auto& [name, value] : group.counters) {
      std::string_view base = name;
      if (take_ending(base, "_us")) {
        add(fmt::format("pvrdma_{}_{}_seconds_total", group.name, base), labels, seconds(value));
      } else {
        add(fmt::format("pvrdma_{}_{}_total", group.name, base), labels, value);
      }
    }
  }

  std::string text() const {
    std::string all;
    for (std::size_t i = 0; i < metrics_.size(); ++i) {
      if (samples_[i].empty()) continue;
      const MetricInfo& row = metrics_[i];
      all += fmt::format("# HELP {} {}\n# TYPE {} {}\n{}", row.name, row.help, row.name,
                         row.type == MetricType::kCounter ? "counter" : "gauge", samples_[i]);
    }
    return all;
  }

 private:
  static std::string label_set(const MetricInfo& row, Values values) {
    std::string set;
    std::string_view names = row.labels;
    for (const std::string_view value : values) {
      PVRDMA_CHECK(!names.empty(), "a label without a name");
      const std::string_view name = names.substr(0, names.find(','));
      names.remove_prefix(std::min(name.size() + 1, names.size()));
      set += fmt::format("{}{}=\"{}\"", set.empty() ? "{" : ",", name, value);
    }
    PVRDMA_CHECK(names.empty(), "a label without a value");
    return set.empty() ? set : set + "}";
  }

  const std::span<const MetricInfo> metrics_ = metric_table();
  std::vector<std::string> samples_{metrics_.size()};  // by row
};

// A budget in base units.
struct ShownBudget {
  std::string name;
  std::uint64_t factor = 1;

  // A number without a bound is infinite.
  std::string value(std::uint64_t number) const {
    return number > kNoBudget / factor || number == kNoBudget ? "+Inf" : fmt::to_string(number * factor);
  }
};

ShownBudget shown(Budget budget) {
  std::string_view name = to_text(budget);
  if (take_ending(name, "_mib")) return {fmt::format("{}_bytes", name), kMib};
  if (take_ending(name, "_per_s")) return {fmt::format("{}_per_second", name)};
  return {std::string(name)};
}

void add_adapter(Exposition& to, const snapshots::AdapterSnapshot& adapter) {
  to.add("pvrdma_adapter_state", {adapter.name, adapter.state}, 1);
  to.add("pvrdma_adapter_pinned_bytes", {adapter.name}, adapter.pinned_bytes);
  for (const snapshots::Gauge& object : adapter.objects) {
    to.add("pvrdma_adapter_objects", {adapter.name, object.name}, object.value);
  }
  for (const BudgetUse& each : adapter.budgets) {
    const ShownBudget budget = shown(each.budget);
    to.add("pvrdma_adapter_budget_use", {adapter.name, budget.name}, budget.value(each.use));
    to.add("pvrdma_adapter_budget_limit", {adapter.name, budget.name}, budget.value(each.limit));
    to.add("pvrdma_adapter_budget_refusals_total", {adapter.name, budget.name}, each.refused);
  }
  for (const snapshots::PathUse& use : adapter.paths) {
    to.add("pvrdma_path_messages_total", {adapter.name, use.path}, use.messages);
    to.add("pvrdma_path_payload_bytes_total", {adapter.name, use.path}, use.payload_bytes);
  }
  for (const snapshots::CounterGroup& group : adapter.groups) {
    if (group.name != snapshots::kBudgetRefusals) to.group(group, {adapter.name});
  }
}

void add_host(Exposition& to, const snapshots::Snapshot& snapshot) {
  for (const BudgetUse& each : snapshot.totals) {
    const ShownBudget budget = shown(each.budget);
    to.add("pvrdma_budget_use", {budget.name}, budget.value(each.use));
    to.add("pvrdma_budget_limit", {budget.name}, budget.value(each.limit));
    to.add("pvrdma_budget_refusals_total", {budget.name}, each.refused);
  }
  for (const snapshots::CounterGroup& group : snapshot.host) {
    if (group.name != snapshots::kTotalBudgetRefusals && group.name != snapshots::kShardCounters &&
        group.name != snapshots::kRingCounters)
      to.group(group, {});
  }
  for (const snapshots::ShardSnapshot& shard : snapshot.shards) {
    const std::string number = fmt::to_string(shard.number);
    to.add("pvrdma_shard_adapters", {number}, shard.adapters.size());
    to.add("pvrdma_shard_cpu_seconds_total", {number}, seconds(shard.cpu_us));
    for (const snapshots::CounterGroup& group : shard.groups) to.group(group, {number});
  }
}

void add_member(Exposition& to, const MemberMetrics& member) {
  const control::StoreState& store = member.store;
  to.add("pvrdma_store_connected", {}, store.connected ? 1 : 0);
  to.add("pvrdma_store_edits_total", {}, store.edits);
  to.add("pvrdma_store_conflicts_total", {}, store.conflicts);
  to.add("pvrdma_store_live_conflicts_total", {}, store.live_conflicts);
  to.add("pvrdma_store_bad_records_total", {}, store.bad_records);
  to.add("pvrdma_store_resyncs_total", {}, store.resyncs);
  const motion::MotionCounters& motions = member.motions;
  to.add("pvrdma_motion_left_total", {}, motions.left);
  to.add("pvrdma_motion_stayed_total", {}, motions.stayed);
  to.add("pvrdma_motion_came_total", {}, motions.came);
  to.add("pvrdma_motion_not_come_total", {}, motions.not_come);
  to.add("pvrdma_motion_pause_seconds_total", {}, seconds(motions.pause_us));
  to.add("pvrdma_motion_state_bytes_total", {}, motions.state_bytes);
  to.add("pvrdma_motion_page_bytes_total", {}, motions.page_bytes);
  const HostReadCounters& reads = *member.reads;
  to.add("pvrdma_host_reads_total", {"answered"}, reads.answered);
  to.add("pvrdma_host_reads_total", {"refused"}, reads.refused);
  to.add("pvrdma_host_reads_total", {"failed"}, reads.failed);
  to.add("pvrdma_host_reads_served_total", {}, reads.served);
}

void add_peers(Exposition& to, const snapshots::Snapshot& snapshot) {
  to.add("pvrdma_tcp_listening", {}, snapshot.tcp.listening ? 1 : 0);
  for (const transport::TcpPeerState& peer : snapshot.tcp.peers) {
    to.add("pvrdma_tcp_lanes_up", {peer.name}, peer.lanes_up);
    to.add("pvrdma_tcp_sessions_up", {peer.name}, peer.sessions_up);
    to.add("pvrdma_tcp_reconnects_total", {peer.name}, peer.reconnects);
  }
  to.add("pvrdma_hca_pinned_bytes", {}, snapshot.hca.pinned_bytes);
  for (const transport::HcaPeerState& peer : snapshot.hca.peers) {
    to.add("pvrdma_hca_up", {peer.name}, peer.is_up ? 1 : 0);
    to.add("pvrdma_hca_peer_falls_total", {peer.name}, peer.falls);
  }
}

}  // namespace

std::string metrics_text(const Measured& measured) {
  Exposition exposition;
  exposition.add("pvrdma_build_info", {measured.version}, 1);
  for (const tls::CertificateState& each : measured.certificates) {
    exposition.add("pvrdma_certificate_not_after_seconds", {each.use}, each.not_after_s);
  }
  for (const snapshots::AdapterSnapshot& adapter : measured.snapshot.adapters) {
    add_adapter(exposition, adapter);
  }
  add_host(exposition, measured.snapshot);
  if (measured.member) {
    add_member(exposition, *measured.member);
    add_peers(exposition, measured.snapshot);
  }
  return exposition.text();
}

}  // namespace pvrdma::api
