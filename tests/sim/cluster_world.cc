#include "sim/cluster_world.h"

#include <algorithm>

#include "support/must.h"

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

constexpr Duration kPatience =
    milliseconds(400);  // 8 times 16.8 ms for an answer, and as often for the path, are less
constexpr Duration kInterruptionMax = milliseconds(15);  // until all hosts have noticed its end
constexpr Duration kQuiet =
    milliseconds(25);  // after an interruption: each timer has fired, each answer is here
constexpr Duration kBootMin = milliseconds(10);  // longer than any message or view takes

test::MachineOptions machine_options(const ClusterOptions& options) {
  test::MachineOptions out;
  out.adapter_count = options.vms;
  out.hardware_version = options.hardware_version;
  out.doorbells = options.doorbells;
  out.may_reach_natives = options.strangers != 0;
  out.driver.ram.size_bytes = 96u << 20;
  return out;
}

Mix guest_mix(const ClusterOptions& options) {
  return options.only_lanes ? Mix{} : World::mix_of(options.seed);
}

}  // namespace

ClusterParts::ClusterParts(const ClusterOptions& options)
    : machines(machine_options(options)),
      cluster(options.seed, options.hosts, options.strangers, options.hcas, machines.clock()) {}

ClusterWorld::ClusterWorld(const ClusterOptions& options)
    : ClusterParts(options),
      World(options.seed, options.connections, guest_mix(options), machines),
      only_lanes_(options.only_lanes),
      strangers_(options.strangers),
      boots_(options.vms) {
  for (std::uint32_t i = 0; i < options.vms; ++i) {
    host_of_.push_back(i % options.hosts);
    gid_of_.push_back(test::gid_of(i));
    schedule_boot(i, host_of_[i], Duration(0));
  }
  pass(milliseconds(15));
  connect_all();
}

ClusterWorld::~ClusterWorld() {
  leave();
  for (std::uint32_t i = 0; i < machines_.count(); ++i) machines_.remove(i);
}

ClusterWorld::ClusterTally ClusterWorld::cluster_tally() const {
  ClusterTally all = cluster_tally_;
  all.views_delivered = cluster.views_delivered();
  all.messages_lost = cluster.messages_lost();
  all.frames = cluster.frames().carried;
  all.messages_by_hca = cluster.messages_by_hca();
  all.bulk = cluster.bulk();
  return all;
}

test::ConnectOptions ClusterWorld::connect_options() {
  test::ConnectOptions options = World::connect_options();
  if (only_lanes_) options.timeout = 0;
  if (only_lanes_) options.rnr_retry = 7;
  return options;
}

// Peers whose view is late answer nothing for a while, and not every QP has a timer that makes it ask again.
// So the QPs are told later that their paths are restored.
void ClusterWorld::replace(std::uint32_t index) {
  if (machines_.now() < calm_until_ || !random_.chance(200)) return;
  calm_until_ = machines_.now() + kInterruptionMax + kQuiet;
  World::replace(index);
  later(kInterruptionMax, [this, index, boot = boots_[index]] {
    if (!machines_.is_placed(index) || boots_[index] != boot) return;
    machines_.adapter(index).engine().on_all_paths_restored(machines_.now());
  });
}

void ClusterWorld::connected(Connection& connection) {
  for (std::uint32_t a = 0; a < cluster.count(); ++a) {
    for (std::uint32_t b = 0; b < a; ++b) {
      const bool is_cut =
          cluster.lanes().is_cut(LaneNetwork::id_of(a), LaneNetwork::id_of(b), machines_.now());
      if (is_cut && connects(connection, a, b)) connection.trouble();
    }
  }
}

// --- Time ---

void ClusterWorld::later(Duration time, std::function<void()> action) {
  agenda_.emplace(machines_.now() + time, std::move(action));
}

void ClusterWorld::pass(Duration time) {
  const Instant end = machines_.now() + time;
  for (;;) {
    const Instant due = agenda_.empty() ? Instant::never() : agenda_.begin()->first;
    const Instant next = std::min({end, due, cluster.next_event(), machines_.next_deadline()});
    machines_.advance(std::max(Duration(0), next - machines_.now()));
    const bool more = cluster.turn();
    while (!agenda_.empty() && agenda_.begin()->first <= machines_.now()) {
      const auto entry = agenda_.extract(agenda_.begin());
      entry.mapped()();
    }
    require(machines_.run(), "the adapters never come to rest");
    if (!more && machines_.now() >= end && cluster.next_event() > end) return;
  }
}

// --- Interruptions: guests must not notice them ---

std::pair<std::uint32_t, std::uint32_t> ClusterWorld::any_pair() {
  const std::uint32_t a = any_host();
  return {a, (a + 1 + random_.below(cluster.count() - 1)) % cluster.count()};
}

void ClusterWorld::change_weather() {
  LaneWeather& weather = cluster.lanes().weather;
  weather.delay_max = microseconds(random_.chance(200) ? random_.below(2000) : random_.below(100));
  weather.pieces_per_mille = random_.chance(600) ? random_.below(1001) : 0;
}

void ClusterWorld::break_lanes() {
  const auto [a, b] = any_pair();
  cluster.lanes().break_lanes(LaneNetwork::id_of(a), LaneNetwork::id_of(b), random_.chance(500),
                              random_.up_to(milliseconds(4)), machines_.now());
  ++tally_.breaks;
}

// Paths between hosts change from tcp to none and back, and the hosts see that at different times.
void ClusterWorld::disable_ruleset() {
  const std::uint32_t host = any_host();
  ++cluster_tally_.rulesets_off;
  cluster.directory().set_ruleset(host, false, machines_.now());
  later(random_.up_to(milliseconds(5)), [this, host] {
    if (cluster.is_up(host)) cluster.directory().set_ruleset(host, true, machines_.now());
  });
}

void ClusterWorld::take_link_down() {
  const std::uint32_t index = any_vm();
  if (!is_on(index)) return;
  ++cluster_tally_.links_down;
  const auto set_link = [this](std::uint32_t vm, bool up) {
    machines_.port(vm).set_link(up);
    machines_.adapter(vm).set_link(up);
  };
  set_link(index, false);
  later(random_.up_to(milliseconds(8)), [this, set_link, index, boot = boots_[index]] {
    if (machines_.is_placed(index) && boots_[index] == boot) set_link(index, true);
  });
}

// Stops an adapter, as while its VM is written to a file: its guest does nothing, nothing reaches the
// adapter, and it sends nothing. Its peers continue without a timer.
void ClusterWorld::stop_adapter() {
  using enum vfio_user::MigrationState;
  const std::uint32_t index = any_vm();
  if (!is_on(index)) return;
  ++cluster_tally_.adapters_stopped;
  const auto change = [this, index](vfio_user::MigrationState state) {
    require(machines_.adapter(index).set_migration_state(state).error == 0, "an adapter cannot be stopped");
  };
  change(kStop);
  pass(random_.up_to(milliseconds(4)));
  change(kRunning);
}

// Paths between hosts change from hca to tcp and back. Each side notices that at a different time.
void ClusterWorld::disturb_hcas() {
  const std::uint32_t host = any_host();
  if (!cluster.is_up(host)) return;
  if (random_.chance(500)) {
    cluster.break_pipes(host);
    ++cluster_tally_.pipes_broken;
  } else {
    cluster.take_port_down(host);
    later(random_.up_to(milliseconds(4)), [this, host] { cluster.bring_port_up(host); });
    ++cluster_tally_.ports_down;
  }
  if (!only_lanes_) calm_until_ = machines_.now() + kInterruptionMax;
}

void ClusterWorld::interrupt() {
  if (machines_.now() < calm_until_) return;
  if (cluster.has_hcas() && random_.chance(500)) return disturb_hcas();
  const std::uint32_t choice = only_lanes_ ? random_.below(6) : random_.below(10);
  if (choice < 2) {
    stop_adapter();
    calm_until_ = machines_.now() + kInterruptionMax;
  } else if (choice < 6) {
    break_lanes();
    // Lost messages are sent again as soon as the lane is back. Without timers, no pause is needed before the
    // next interruption.
    if (!only_lanes_) calm_until_ = machines_.now() + kInterruptionMax;
  } else {
    calm_until_ = machines_.now() + kInterruptionMax + kQuiet;
    if (choice < 8) {
      disable_ruleset();
    } else {
      take_link_down();
    }
  }
}

// The paths to the stranger's VMs change from roce to tcp while connections exist. Each side notices that at
// a different time.
void ClusterWorld::join_stranger() {
  if (strangers_ == 0 || machines_.now() < calm_until_) return;
  calm_until_ = machines_.now() + kInterruptionMax + kQuiet;
  cluster.join(cluster.count() - strangers_);
  --strangers_;
  ++cluster_tally_.strangers_joined;
}

// --- Trouble: it may end connections ---

bool ClusterWorld::connects(const Connection& connection, std::uint32_t a, std::uint32_t b) const {
  const auto touches = [&](std::uint32_t host) {
    for (std::uint32_t vm = 0; vm < host_of_.size(); ++vm) {
      if (host_of_[vm] == host && connection.uses_vm(vm)) return true;
    }
    return false;
  };
  return touches(a) && touches(b);
}

void ClusterWorld::cut() {
  const auto [a, b] = any_pair();
  ++cluster_tally_.cuts;
  each_connection([&, a = a, b = b](Connection& one) {
    if (connects(one, a, b)) one.trouble();
  });
  cluster.lanes().cut(LaneNetwork::id_of(a), LaneNetwork::id_of(b),
                      machines_.now() + random_.up_to(milliseconds(300)), machines_.now());
}

// The peers of the lost VM must give up when their retries are used up.
void ClusterWorld::wait_for_the_end(std::uint32_t index) {
  if (random_.chance(700)) return pass(milliseconds(5));
  pass(kPatience);
  poll_all();
  each_connection([&](const Connection& one) {
    require(!one.uses_vm(index) || !one.busy(), one.name() + ": does not give up a dead peer");
  });
}

void ClusterWorld::kill_host() {
  const std::uint32_t host = any_host();
  for (std::uint32_t i = 0; i < cluster.count(); ++i) {
    if (!cluster.is_up(i)) return;  // one at a time
  }
  ++cluster_tally_.hosts_died;
  poll_all();
  cluster.kill(host);
  cluster.lanes().forget_overheard();
  std::vector<std::uint32_t> lost;
  for (std::uint32_t vm = 0; vm < host_of_.size(); ++vm) {
    if (host_of_[vm] != host) continue;
    ++boots_[vm];
    if (is_on(vm)) stop(vm);
    lost.push_back(vm);
  }
  for (const std::uint32_t vm : lost) {
    if (is_on(vm)) {
      wait_for_the_end(vm);
      bury(vm);
    }
    machines_.remove(vm);
  }
  later(random_.up_to(milliseconds(100)), [this, host] { cluster.start(host); });
  for (const std::uint32_t vm : lost)
    schedule_boot(vm, any_host(), kBootMin + random_.up_to(milliseconds(100)));
}

void ClusterWorld::move_vm() {
  const std::uint32_t index = any_vm();
  if (!is_on(index)) return;
  ++boots_[index];
  stop(index);
  cluster.lanes().forget_overheard();
  wait_for_the_end(index);
  bury(index);
  machines_.remove(index);
  const std::uint32_t host = any_host();
  if (host != host_of_[index]) ++cluster_tally_.vms_moved;
  schedule_boot(index, host, kBootMin + random_.up_to(milliseconds(20)));
}

// Two VMs exchange their addresses. Their old QPs still send from the old addresses, and no peer accepts
// that.
void ClusterWorld::swap_gids() {
  const std::uint32_t a = any_vm();
  const std::uint32_t b = any_vm();
  if (a == b || !is_on(a) || !is_on(b)) return;
  if (host_of_[a] != host_of_[b] && !(is_seen_elsewhere(a, gid_of_[b]) && is_seen_elsewhere(b, gid_of_[a])))
    return;  // hosts whose views are older than the GIDs could both bind the same one
  each_connection([&](Connection& one) {
    if (one.uses_vm(a) || one.uses_vm(b)) one.trouble();
  });
  pass(kBootMin);  // afterwards, a lie in flight would come from the right host
  cluster.lanes().forget_overheard();
  for (const std::uint32_t vm : {a, b}) {
    vms_[vm].datagrams.reset();
    must(vms_[vm].vm.device->unbind_gid(0, gid_of_[vm]));
  }
  std::swap(gid_of_[a], gid_of_[b]);
  for (const std::uint32_t vm : {a, b}) {
    for (int tries = 0; !bind(vm); ++tries) {
      require(tries < 100, "a GID that was given up is never free");
      pass(random_.up_to(milliseconds(1)));
    }
    readdress(vm, gid_of_[vm]);
    if (host_of_[a] != host_of_[b]) ++cluster_tally_.gids_moved;
  }
}

void ClusterWorld::make_trouble(std::size_t index) {
  const int side = random_.chance(500) ? 1 : 0;
  if (strangers_ != 0 && random_.chance(300)) return join_stranger();
  switch (random_.below(strangers_ == 0 ? 7 : 2)) {
    case 0:
      connection(index).to_error(side, machines_.now());
      break;
    case 1:
      connection(index).destroy_qp(side, machines_.now());
      break;
    case 2:
      cut();
      break;
    case 3:
      kill_host();
      break;
    case 4:
    case 5:
      move_vm();
      break;
    default:
      swap_gids();
      break;
  }
}

void ClusterWorld::disturb(std::size_t index) {
  const std::uint32_t choice = random_.below(43);
  if (choice < 5) {
    change_weather();
  } else if (choice < 8) {
    if (cluster.lanes().lie(LaneNetwork::id_of(any_host()), machines_.now())) ++cluster_tally_.lies;
  } else if (choice < 12) {
    const auto [a, b] = any_pair();
    cluster.lanes().stall(LaneNetwork::id_of(a), LaneNetwork::id_of(b),
                          machines_.now() + random_.up_to(milliseconds(2)));
  } else if (choice < 33) {
    interrupt();
  } else if (!only_lanes_) {
    make_trouble(index);
  }
}

// --- Booting VMs ---

void ClusterWorld::schedule_boot(std::uint32_t index, std::uint32_t host, Duration time) {
  later(time, [this, index, host, boot = ++boots_[index]] {
    if (boots_[index] == boot) try_boot(index, host);
  });
}

void ClusterWorld::try_boot(std::uint32_t index, std::uint32_t host) {
  if (!cluster.is_up(host)) return schedule_boot(index, any_host(), milliseconds(1));
  if (!machines_.is_placed(index)) machines_.place(index, cluster.segment(host));
  host_of_[index] = host;
  machines_.open(index);
  if (bind(index)) {
    boot(index, gid_of_[index]);
  } else {
    schedule_boot(index, host, milliseconds(1));
  }
}

bool ClusterWorld::is_seen_elsewhere(std::uint32_t index, const abi::Gid& gid) const {
  const fabric::View& view = cluster.view(host_of_[index]);
  return std::any_of(view.gids.begin(), view.gids.end(),
                     [&](const fabric::RemoteGid& one) { return one.gid == verbs::Gid{gid.raw}; });
}

bool ClusterWorld::bind(std::uint32_t index) {
  const bool elsewhere = is_seen_elsewhere(index, gid_of_[index]);
  const bool bound = machines_.open(index).bind_gid(0, gid_of_[index]).has_value();
  require(bound != elsewhere, "a GID was bound though another host holds it, or refused though none does");
  if (!bound) ++cluster_tally_.binds_refused;
  return bound;
}

// --- The end ---

void ClusterWorld::calm_down() {
  cluster.lanes().weather = LaneWeather{};
  while (strangers_ != 0) {
    join_stranger();
    pass(milliseconds(1));
  }
  const auto all_on = [this] {
    for (std::uint32_t i = 0; i < machines_.count(); ++i) {
      if (!is_on(i)) return false;
    }
    return true;
  };
  for (int round = 0; !all_on() || !agenda_.empty() || !cluster.at_rest(); ++round) {
    require(round < 2000, "the cluster does not come to rest within two seconds");
    pass(milliseconds(1));
  }
  verify_paths();
  require(cluster.crimes() == 0, "a NIC saw what no program may do");
}

// Every host knows the path to every VM.
void ClusterWorld::verify_paths() {
  for (std::uint32_t from = 0; from < host_of_.size(); ++from) {
    for (std::uint32_t to = 0; to < host_of_.size(); ++to) {
      const auto path = cluster.segment(host_of_[from]).path_to(verbs::Gid{gid_of_[to].raw});
      const auto kind = host_of_[from] == host_of_[to] ? transport::PathKind::kLocal
                        : cluster.has_hcas()           ? transport::PathKind::kHca
                                                       : transport::PathKind::kTcp;
      require(path.kind == kind, "a path is " + std::string(to_text(path.kind)) + ": " + path.reason);
    }
  }
}

}  // namespace pvrdma::sim
