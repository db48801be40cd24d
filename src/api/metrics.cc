#include "api/metrics.h"

#include <fmt/format.h>
#include <iterator>
#include <map>

namespace pvrdma::api {
namespace {

// The format requires all samples of one metric together, under its TYPE. Adapter names and states need no
// escaping (config.h says which characters names have).
class Exposition {
 public:
  void counter(std::string_view group, const snapshots::Counter& counter, std::string_view labels) {
    add(fmt::format("pvrdma_{}_{}_total", group, counter.name), "counter", labels, counter.value);
  }
  void total(std::string_view name, std::string_view labels, std::uint64_t value) {
    add(fmt::format("pvrdma_{}_total", name), "counter", labels, value);
  }
  void gauge(std::string_view name, std::string_view labels, std::uint64_t value) {
    add(fmt::format("pvrdma_{}", name), "gauge", labels, value);
  }
  std::string text() const {
    std::string all;
    for (const auto& [name, metric] : metrics_) {
      fmt::format_to(std::back_inserter(all), "# TYPE {} {}\n{}", name, metric.type, metric.samples);
    }
    return all;
  }

 private:
  struct Metric {
    std::string_view type;
    std::string samples;
  };

  void add(const std::string& name, std::string_view type, std::string_view labels, std::uint64_t value) {
    Metric& metric = metrics_[name];
    metric.type = type;
    fmt::format_to(std::back_inserter(metric.samples), "{}{} {}\n", name, labels, value);
  }

  std::map<std::string, Metric> metrics_;
};

void add_store(Exposition& exposition, const control::StoreState& store) {
  exposition.gauge("store_connected", "", store.connected ? 1 : 0);
  exposition.total("store_edits", "", store.edits);
  exposition.total("store_conflicts", "", store.conflicts);
  exposition.total("store_live_conflicts", "", store.live_conflicts);
  exposition.total("store_bad_records", "", store.bad_records);
  exposition.total("store_resyncs", "", store.resyncs);
}

void add_motions(Exposition& exposition, const motion::MotionCounters& motions) {
  exposition.total("motion_left", "", motions.left);
  exposition.total("motion_stayed", "", motions.stayed);
  exposition.total("motion_came", "", motions.came);
  exposition.total("motion_not_come", "", motions.not_come);
  exposition.total("motion_pause_us", "", motions.pause_us);
  exposition.total("motion_state_bytes", "", motions.state_bytes);
  exposition.total("motion_page_bytes", "", motions.page_bytes);
}

// Host names need no escaping either.
void add_tcp(Exposition& exposition, const transport::TcpState& tcp) {
  exposition.gauge("tcp_listening", "", tcp.listening ? 1 : 0);
  for (const transport::TcpPeerState& peer : tcp.peers) {
    const std::string label = fmt::format("{{peer=\"{}\"}}", peer.name);
    exposition.gauge("tcp_lanes_up", label, peer.lanes_up);
    exposition.gauge("tcp_sessions_up", label, peer.sessions_up);
    exposition.total("tcp_reconnects", label, peer.reconnects);
  }
}

void add_hca(Exposition& exposition, const transport::HcaState& hca) {
  exposition.gauge("hca_pinned_bytes", "", hca.pinned_bytes);
  for (const transport::HcaPeerState& peer : hca.peers) {
    const std::string label = fmt::format("{{peer=\"{}\"}}", peer.name);
    exposition.gauge("hca_up", label, peer.is_up ? 1 : 0);
    exposition.total("hca_peer_falls", label, peer.falls);
  }
}

}  // namespace

std::string metrics_text(const snapshots::Snapshot& snapshot, std::string_view version,
                         const std::optional<MemberMetrics>& member) {
  Exposition exposition;
  exposition.gauge("build_info", fmt::format("{{version=\"{}\"}}", version), 1);
  for (const snapshots::AdapterSnapshot& adapter : snapshot.adapters) {
    const std::string label = fmt::format("{{adapter=\"{}\"}}", adapter.name);
    exposition.gauge("adapter_state",
                     fmt::format("{{adapter=\"{}\",state=\"{}\"}}", adapter.name, adapter.state), 1);
    exposition.gauge("adapter_pinned_bytes", label, adapter.pinned_bytes);
    for (const snapshots::Gauge& object : adapter.objects) {
      exposition.gauge("adapter_objects",
                       fmt::format("{{adapter=\"{}\",kind=\"{}\"}}", adapter.name, object.name),
                       object.value);
    }
    for (const BudgetUse& budget : adapter.budgets) {
      const std::string which =
          fmt::format("{{adapter=\"{}\",budget=\"{}\"}}", adapter.name, to_text(budget.budget));
      exposition.gauge("adapter_budget_use", which, budget.use);
      exposition.gauge("adapter_budget_limit", which, budget.limit);
    }
    for (const snapshots::PathUse& use : adapter.paths) {
      const std::string path = fmt::format("{{adapter=\"{}\",path=\"{}\"}}", adapter.name, use.path);
      exposition.total("path_messages", path, use.messages);
      exposition.total("path_payload_bytes", path, use.payload_bytes);
    }
    for (const snapshots::CounterGroup& group : adapter.groups) {
      for (const snapshots::Counter& counter : group.counters) exposition.counter(group.name, counter, label);
    }
  }
  for (const BudgetUse& total : snapshot.totals) {
    const std::string which = fmt::format("{{budget=\"total_{}\"}}", to_text(total.budget));
    exposition.gauge("budget_use", which, total.use);
    exposition.gauge("budget_limit", which, total.limit);
  }
  for (const snapshots::CounterGroup& group : snapshot.host) {
    for (const snapshots::Counter& counter : group.counters) exposition.counter(group.name, counter, "");
  }
  if (member) {
    add_store(exposition, member->store);
    add_motions(exposition, member->motions);
    add_tcp(exposition, snapshot.tcp);
    add_hca(exposition, snapshot.hca);
  }
  return exposition.text();
}

}  // namespace pvrdma::api
