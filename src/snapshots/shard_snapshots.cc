#include "snapshots/shard_snapshots.h"

#include <algorithm>
#include <fmt/core.h>
#include <mutex>
#include <optional>
#include <sched.h>
#include <string>
#include <utility>
#include <vector>

#include "device/adapter_info.h"
#include "fabric/path_info.h"
#include "fabric/port.h"
#include "shard/ask.h"
#include "snapshots/counter_groups.h"
#include "verbs/engine.h"

namespace pvrdma::snapshots {
namespace {

// The values that a shard copies.
struct QpCopy {
  verbs::QpInfo info;
  fabric::PathInfo path;
};

struct AdapterCopy {
  device::AdapterInfo info;
  std::vector<std::string> gids_lost_to;  // in the order of info.gids
  std::string socket;
  fabric::PortCounters port;
  adapters::NativeAccess natives;
  std::string link_trouble;  // why its segment's link to native endpoints is down
  transport::HcaMemory hca_memory;
};

struct TcpCopy {
  transport::TcpState state;
  transport::Counters counters;
  transport::TcpErrors errors;
};

struct HcaCopy {
  transport::HcaState state;
  HcaCounts counts;
};

struct ShardCopy {
  std::vector<AdapterCopy> adapters;
  std::vector<adapters::AdapterTrouble> not_served;
  std::optional<TcpCopy> tcp;
  std::optional<HcaCopy> hca;
  std::optional<RoceCounts> roce;
  std::uint64_t duplicates_refused = 0;
  std::uint64_t foreign_refused = 0;
  std::uint64_t gids_lost = 0;
  std::string_view local_name;
  transport::Counters local;
  shard::LoopCounters loop;
  std::optional<transport::Siblings::RingCounters> rings;
  int cpu = 0;
  Duration cpu_used{};
  std::uint32_t busy_percent = 0;
};

bool is_connected(const verbs::QpInfo& qp) {
  return qp.type == abi::QpType::kRc && qp.attributes.state >= abi::QpState::kRtr &&
         !qp.attributes.dgid.is_zero();
}

struct QpPageCopy {
  std::vector<QpCopy> qps;
  std::optional<std::uint32_t> next;
  transport::HcaMemory hca_memory;
};

transport::HcaMemory memory_of(const transport::Hca* hca, const adapters::ServedAdapter& adapter) {
  return hca != nullptr ? hca->memory(adapter.engine()) : transport::HcaMemory{};
}

QpPageCopy copy_qps(const adapters::ServedAdapter& adapter, const transport::Hca* hca, std::uint32_t first) {
  const fabric::Switch& fabric_switch = adapter.port().fabric_switch();
  const verbs::Engine::QpPage page = adapter.list_qps_from(first);
  QpPageCopy copy{{}, page.next, memory_of(hca, adapter)};
  copy.qps.reserve(page.qps.size());
  for (const verbs::QpInfo& info : page.qps) {
    fabric::PathInfo path = is_connected(info) ? fabric_switch.path_to(info.attributes.dgid, &adapter.port())
                                               : fabric::PathInfo{};
    copy.qps.push_back(QpCopy{info, std::move(path)});
  }
  return copy;
}

std::vector<std::string> lost_gids(const fabric::Port& port, const std::vector<device::GidInfo>& gids) {
  std::vector<std::string> hosts;
  for (const device::GidInfo& gid : gids) {
    const std::string* host = port.fabric_switch().lost_to(port, gid.gid);
    hosts.push_back(host == nullptr ? std::string() : *host);
  }
  return hosts;
}

AdapterCopy copy_adapter(const adapters::AdapterSet& all, const transport::Roce* roce,
                         const transport::Hca* hca, const adapters::ServedAdapter& adapter) {
  device::AdapterInfo info = adapter.adapter().info();
  std::vector<std::string> lost = lost_gids(adapter.port(), info.gids);
  return {std::move(info),
          std::move(lost),
          adapter.socket(),
          adapter.port().counters(),
          all.native_access(adapter),
          roce != nullptr ? roce->link_trouble(adapter.port().fabric_switch().segment()) : std::string(),
          memory_of(hca, adapter)};
}

// Everything below runs on the calling thread.

std::string_view name_of(abi::QpType type) {
  switch (type) {
    case abi::QpType::kSmi:
      return "SMI";
    case abi::QpType::kGsi:
      return "GSI";
    case abi::QpType::kRc:
      return "RC";
    case abi::QpType::kUc:
      return "UC";
    case abi::QpType::kUd:
      return "UD";
  }
  return "";
}

std::string_view name_of(abi::QpState state) {
  switch (state) {
    case abi::QpState::kReset:
      return "RESET";
    case abi::QpState::kInit:
      return "INIT";
    case abi::QpState::kRtr:
      return "RTR";
    case abi::QpState::kRts:
      return "RTS";
    case abi::QpState::kSqd:
      return "SQD";
    case abi::QpState::kSqe:
      return "SQE";
    case abi::QpState::kErr:
      return "ERR";
  }
  return "";
}

using pvrdma::to_text;
std::string to_text(const verbs::Gid& gid) {
  return gid.is_zero() ? std::string() : gid.to_string();
}

std::vector<Gauge> objects_of(const verbs::Engine::ObjectCounts& counts) {
  return {{"contexts", counts.contexts}, {"pds", counts.pds}, {"mrs", counts.mrs},
          {"cqs", counts.cqs},           {"qps", counts.qps}, {"srqs", counts.srqs}};
}

AdapterSnapshot to_snapshot(const AdapterCopy& copy) {
  const device::AdapterInfo& info = copy.info;
  AdapterSnapshot adapter;
  adapter.name = info.name;
  adapter.socket = copy.socket;
  adapter.mac = info.mac.to_string();
  adapter.hardware_version = number_of(info.hardware_version);
  adapter.device_version = info.device_version;
  adapter.roce = to_text(info.roce);
  adapter.doorbells = to_text(info.doorbells);
  adapter.mtu = info.mtu_bytes;
  adapter.native_endpoints = adapters::describe(copy.natives, copy.link_trouble);
  adapter.state = info.connected ? device::describe(info.state) : "off";
  adapter.link_up = info.link_up;
  adapter.driver_version = info.driver_version;
  adapter.guest_os = info.guest_os;
  adapter.trouble = info.trouble;
  adapter.memory_bytes = info.dma_ram_bytes;
  adapter.pinned_bytes = copy.hca_memory.pinned_bytes;
  adapter.pinned_trouble = copy.hca_memory.trouble;
  adapter.tx_messages = info.verbs_counters.tx_messages;
  adapter.tx_bytes = info.verbs_counters.tx_bytes;
  adapter.rx_messages = info.verbs_counters.rx_messages;
  adapter.rx_bytes = info.verbs_counters.rx_bytes;
  adapter.offences = info.device_counters.offences;
  adapter.offences_us = info.device_counters.offences_us;
  for (std::size_t i = 0; i < info.gids.size(); ++i) {
    const device::GidInfo& gid = info.gids[i];
    adapter.gids.push_back({gid.index, gid.gid.to_string(), to_text(gid.roce), copy.gids_lost_to[i]});
  }
  adapter.objects = objects_of(info.objects);
  adapter.budgets = info.budgets;
  for (const fabric::PathKind kind :
       {fabric::PathKind::kLocal, fabric::PathKind::kTcp, fabric::PathKind::kHca, fabric::PathKind::kRoce}) {
    const transport::Traffic& sent = copy.port.sent_by(kind);
    adapter.paths.push_back({to_text(kind), sent.messages, sent.payload_bytes});
  }
  adapter.groups = {verbs_group(info.verbs_counters), device_group(info.device_counters),
                    command_error_group(info.device_counters.command_errors),
                    budget_group(kBudgetRefusals, info.budgets), port_group(copy.port)};
  return adapter;
}

// Those that each shard shows for itself, too.
std::vector<CounterGroup> thread_groups(const ShardCopy& shard) {
  std::vector<CounterGroup> groups{shard_group(shard.loop)};
  if (shard.rings) groups.push_back(ring_group(*shard.rings));
  return groups;
}

std::vector<CounterGroup> own_groups(const ShardCopy& shard) {
  std::vector<CounterGroup> groups{{"switch",
                                    {{"duplicate_gids_refused", shard.duplicates_refused},
                                     {"foreign_gids_refused", shard.foreign_refused},
                                     {"gids_lost", shard.gids_lost}}},
                                   transport_group(shard.local_name, shard.local)};
  for (CounterGroup& group : thread_groups(shard)) groups.push_back(std::move(group));
  return groups;
}

ShardSnapshot to_snapshot(std::size_t number, const ShardCopy& copy) {
  ShardSnapshot shard{.number = static_cast<std::uint32_t>(number),
                      .cpu = static_cast<std::uint32_t>(copy.cpu),
                      .cpu_us = microseconds_of(copy.cpu_used),
                      .busy_percent = copy.busy_percent,
                      .adapters = {},
                      .groups = thread_groups(copy)};
  for (const AdapterCopy& adapter : copy.adapters) shard.adapters.push_back(adapter.info.name);
  return shard;
}

std::vector<CounterGroup> outward_groups(const ShardCopy& shard) {
  std::vector<CounterGroup> groups;
  if (shard.tcp) groups.push_back(tcp_group(shard.tcp->counters, shard.tcp->errors));
  if (shard.hca) groups.push_back(hca_group(shard.hca->counts));
  if (shard.roce) {
    for (CounterGroup& group : roce_groups(*shard.roce)) groups.push_back(std::move(group));
  }
  return groups;
}

// Adds up the groups of all shards. Groups of one name have the same counters in the same order.
std::vector<CounterGroup> sum(const std::vector<ShardCopy>& shards,
                              std::vector<CounterGroup> (*groups_of)(const ShardCopy&)) {
  std::vector<CounterGroup> all;
  for (const ShardCopy& shard : shards) {
    for (CounterGroup& group : groups_of(shard)) {
      const auto same = std::ranges::find(all, group.name, &CounterGroup::name);
      if (same == all.end()) {
        all.push_back(std::move(group));
        continue;
      }
      for (std::size_t i = 0; i < group.counters.size(); ++i)
        same->counters[i].value += group.counters[i].value;
    }
  }
  return all;
}

// Adds what one shard's lanes are to other hosts. A host has an entry for each of its shards there; here it
// has one. Only the first shard listens.
void add_tcp(const transport::TcpState& shard, std::size_t number, transport::TcpState& all) {
  if (number == 0) {
    all.listening = shard.listening;
    all.trouble = shard.trouble;
  }
  for (const transport::TcpPeerState& peer : shard.peers) {
    const auto known = std::ranges::find(all.peers, peer.name, &transport::TcpPeerState::name);
    if (known == all.peers.end()) {
      all.peers.push_back(peer);
      continue;
    }
    known->lanes_up += peer.lanes_up;
    known->sessions_up += peer.sessions_up;
    known->reconnects += peer.reconnects;
    if (known->trouble.empty()) known->trouble = peer.trouble;
  }
}

// Adds what one shard's pipes are to other hosts, likewise. A host is up if the pipe between the first shards
// is: the others rest while nothing needs them.
void add_hca(const transport::HcaState& shard, std::size_t number, transport::HcaState& all) {
  if (number == 0) {
    all.device = shard.device;
    all.trouble = shard.trouble;
  } else if (all.trouble.empty() && !shard.trouble.empty()) {
    all.trouble = fmt::format("on shard {}: {}", number, shard.trouble);
  }
  for (const transport::HcaPeerState& peer : shard.peers) {
    const auto known = std::ranges::find(all.peers, peer.name, &transport::HcaPeerState::name);
    if (known == all.peers.end()) {
      all.peers.push_back(peer);
      continue;
    }
    known->pipes += peer.pipes;
    known->falls += peer.falls;
    if (known->trouble.empty()) known->trouble = peer.trouble;
  }
}

QpSnapshot to_snapshot(const std::string& adapter, const QpCopy& copy) {
  const verbs::QpInfo& info = copy.info;
  QpSnapshot qp;
  qp.adapter = adapter;
  qp.qpn = info.qpn.value;
  qp.type = name_of(info.type);
  qp.state = name_of(info.attributes.state);
  qp.local_gid = to_text(info.local_gid);
  if (is_connected(info)) {
    qp.remote_gid = to_text(info.attributes.dgid);
    qp.remote_qpn = info.attributes.dest_qpn.value;
    qp.path = to_text(copy.path.kind);
    qp.path_reason = copy.path.reason;
    // About other paths, the reason says it already.
    if (copy.path.kind == fabric::PathKind::kRoce && !info.path_trouble.empty())
      qp.path_reason += ", but " + info.path_trouble;
    qp.peer_host = copy.path.peer_host;
  }
  qp.tx_messages = info.tx_messages;
  qp.tx_bytes = info.tx_bytes;
  qp.rx_messages = info.rx_messages;
  qp.rx_bytes = info.rx_bytes;
  qp.retransmits = info.retransmits;
  return qp;
}

}  // namespace

// The ward's newest answer.
struct ShardSnapshots::LastOfWard {
  // Puts it in place of an answer that is missing or older. Returns why the ward's values are old; empty:
  // they are not. `others`: the copies of the other shards. `ward`: its name.
  std::string stand_in(Result<ShardCopy>& answer, const std::vector<ShardCopy>& others,
                       const std::string& ward) {
    const std::lock_guard lock(mutex);
    const bool is_late = !answer;
    if (copy && (is_late || copy->loop.turns > answer->loop.turns)) answer = *copy;
    if (!answer) return {};
    if (!is_late) {
      copy = *answer;
      at = Instant::now();
      return {};
    }
    std::erase_if(answer->adapters, [&others](const AdapterCopy& old) {  // it has left the ward since
      return std::ranges::any_of(others,
                                 [&old](const ShardCopy& shard) { return has(shard, old.info.name); });
    });
    return fmt::format("{}, does not answer: these are its values of {} ms ago", ward,
                       microseconds_of(Instant::now() - at) / 1000);
  }
  static bool has(const ShardCopy& shard, const std::string& adapter) {
    return std::ranges::any_of(shard.adapters,
                               [&adapter](const AdapterCopy& each) { return each.info.name == adapter; });
  }

  std::mutex mutex;
  std::optional<ShardCopy> copy;  // empty: it has not answered yet
  Instant at;
};

ShardSnapshots::ShardSnapshots(const adapters::Shards& shards, const verbs::HostAccount& account,
                               std::vector<const transport::Tcp*> tcps,
                               std::vector<const transport::Hca*> hcas, ProcessCounters process_counters)
    : shards_(shards),
      account_(account),
      tcps_(std::move(tcps)),
      hcas_(std::move(hcas)),
      process_counters_(std::move(process_counters)),
      last_of_ward_(std::make_unique<LastOfWard>()) {}

ShardSnapshots::~ShardSnapshots() = default;

Result<Snapshot> ShardSnapshots::take_snapshot(SnapshotDetail detail) {
  auto answers = shards_.ask_all(
      [this](std::size_t index) {
        const adapters::Shard& shard = shards_[index];
        const transport::Tcp* const tcp = tcp_of(index);
        const transport::Hca* const hca = hca_of(index);
        ShardCopy copy;
        for (const auto& adapter : shard.adapters.adapters())
          copy.adapters.push_back(copy_adapter(shard.adapters, shard.roce, hca, *adapter));
        copy.not_served = shard.adapters.troubles();
        if (tcp != nullptr) copy.tcp = TcpCopy{tcp->state(), tcp->counters(), tcp->errors()};
        if (hca != nullptr) copy.hca = HcaCopy{hca->state(), {hca->counters(), hca->bulk(), hca->errors()}};
        if (shard.roce != nullptr)
          copy.roce = RoceCounts{shard.roce->counters(), shard.roce->packets(), shard.roce->errors(),
                                 shard.roce->link_counters()};
        copy.duplicates_refused = shard.fabric.duplicates_refused();
        copy.foreign_refused = shard.fabric.foreign_refused();
        copy.gids_lost = shard.fabric.gids_lost();
        const transport::Transport& local = *shard.fabric.transports().find(transport::PathKind::kLocal);
        copy.local_name = to_text(local.kind());
        copy.local = local.counters();
        copy.loop = shard.loop.counters();
        if (shard.siblings != nullptr) copy.rings = shard.siblings->ring_counters();
        copy.cpu = std::max(0, ::sched_getcpu());
        copy.cpu_used = shard.loop.cpu_used();
        copy.busy_percent = shard.loop.busy_percent();
        return copy;
      },
      "taking a snapshot", {.ward = kWardPatience});
  std::vector<ShardCopy> copies;
  std::string late;  // why the ward's values are old; empty: they are not
  for (std::size_t i = 0; i < answers.size(); ++i) {
    if (i == shards_.ward()) late = last_of_ward_->stand_in(answers[i], copies, shards_.name_of(i));
    if (!answers[i]) {
      Error error = std::move(answers[i]).error();
      return Failure(shards_.count() == 1 ? std::move(error) : std::move(error).in(shards_.name_of(i)));
    }
    copies.push_back(*std::move(answers[i]));
  }
  Snapshot snapshot;
  for (std::size_t shard = 0; shard < copies.size(); ++shard) {
    const bool is_late = shard == shards_.ward() && !late.empty();
    for (const AdapterCopy& adapter : copies[shard].adapters) {
      snapshot.adapters.push_back(to_snapshot(adapter));
      if (is_late) snapshot.adapters.back().trouble = late;
      if (detail != SnapshotDetail::kAdaptersAndQps || is_late) continue;
      if (auto added = add_qps(shard, adapter.info.name, snapshot); !added)
        return Failure(std::move(added).error());
    }
    snapshot.shards.push_back(to_snapshot(shard, copies[shard]));
    snapshot.shards.back().is_ward = shard == shards_.ward();
    if (is_late) snapshot.shards.back().trouble = late;
    const auto& not_served = copies[shard].not_served;
    snapshot.not_served.insert(snapshot.not_served.end(), not_served.begin(), not_served.end());
    if (copies[shard].tcp) add_tcp(copies[shard].tcp->state, shard, snapshot.tcp);
    if (copies[shard].hca) add_hca(copies[shard].hca->state, shard, snapshot.hca);
  }
  for (const AdapterSnapshot& adapter : snapshot.adapters) snapshot.hca.pinned_bytes += adapter.pinned_bytes;
  snapshot.totals = account_.uses();
  snapshot.host = sum(copies, own_groups);
  snapshot.host.push_back(budget_group(kTotalBudgetRefusals, snapshot.totals));
  for (CounterGroup& group : sum(copies, outward_groups)) snapshot.host.push_back(std::move(group));
  if (process_counters_) {
    for (CounterGroup& group : process_counters_()) snapshot.host.push_back(std::move(group));
  }
  return snapshot;
}

// An adapter may have tens of thousands of QPs. The shard copies one page of them per task, and serves guests
// between the tasks.
Result<void> ShardSnapshots::add_qps(std::size_t shard, const std::string& adapter, Snapshot& snapshot) {
  for (std::optional<std::uint32_t> next = 0; next;) {
    const auto page = shard::ask(
        shards_[shard].loop, adapters::kShardPatience,
        [&set = shards_[shard].adapters, hca = hca_of(shard), adapter, first = *next] {
          const adapters::ServedAdapter* const served = set.find(adapter);
          return served != nullptr ? copy_qps(*served, hca, first) : QpPageCopy{};
        },
        "listing QPs");
    if (!page) return Failure(page.error());
    const std::string note = describe(page->hca_memory, adapter);
    for (const QpCopy& qp : page->qps) {
      QpSnapshot& shown = snapshot.qps.emplace_back(to_snapshot(adapter, qp));
      if (qp.path.kind == fabric::PathKind::kHca && !note.empty()) shown.path_reason += ", " + note;
    }
    next = page->next;
  }
  return {};
}

}  // namespace pvrdma::snapshots
