#include "sim/shards_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "support/must.h"
#include "transport/hca/host_pipes.h"

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

constexpr Duration kAwayMax = milliseconds(3);  // longer than any shard comes late
// Until all hosts know where a VM is.
constexpr Duration kNewsMax = Directory::kPublishMax + Directory::kViewMax + kAwayMax;
constexpr std::uint32_t kVerificationsPerMille = 100;
// What a move tells the QPs also heals what was lost before, so it must not come too often to see that.
constexpr std::uint32_t kMovesPerMille = 200;  // of the replacements in a world without trouble

test::MachineOptions machine_options(const ShardsOptions& options) {
  test::MachineOptions out;
  out.adapter_count = options.vms;
  out.hardware_version = options.hardware_version;
  out.doorbells = options.doorbells;
  out.driver.ram.size_bytes = 96u << 20;
  return out;
}

test::MachineOptions waking(test::MachineOptions options, ShardsParts& parts) {
  options.before_each_call = [&parts](std::uint32_t vm) { parts.cluster.wake(parts.shard_of[vm]); };
  return options;
}

Mix guest_mix(const ShardsOptions& options) {
  return options.peace == Peace::kNone ? World::mix_of(options.seed) : Mix{};
}

}  // namespace

ShardsParts::ShardsParts(const ShardsOptions& options)
    : shard_of(options.vms),
      machines(waking(machine_options(options), *this)),
      cluster(options.seed, options.hosts, options.shards, options.hcas, machines.clock()) {}

ShardsWorld::ShardsWorld(const ShardsOptions& options)
    : ShardsParts(options),
      World(options.seed, options.connections, guest_mix(options), machines),
      peace_(options.peace) {
  for (std::uint32_t i = 0; i < options.vms; ++i) {
    gid_of_.push_back(test::gid_of(i));
    start(i);
  }
  come_to_rest();
  connect_all();
}

ShardsWorld::~ShardsWorld() {
  leave();
  for (std::uint32_t i = 0; i < machines.count(); ++i) {
    cluster.end(shard_of[i], i);
    machines.remove(i);
  }
}

ShardsWorld::ShardsTally& ShardsWorld::ShardsTally::operator+=(const ShardsTally& other) {
  moved += other.moved;
  turned_away += other.turned_away;
  adapters_stopped += other.adapters_stopped;
  loans_stopped += other.loans_stopped;
  links_down += other.links_down;
  gids_moved += other.gids_moved;
  rings += other.rings;
  lost_on_lanes += other.lost_on_lanes;
  ports_down += other.ports_down;
  pipes_broken += other.pipes_broken;
  return *this;
}

ShardsWorld::ShardsTally ShardsWorld::shards_tally() const {
  ShardsTally all = shards_tally_;
  all.rings = cluster.tally();
  all.lost_on_lanes = cluster.lanes().lost();
  return all;
}

test::ConnectOptions ShardsWorld::connect_options() {
  test::ConnectOptions options = World::connect_options();
  if (peace_ == Peace::kNone) return options;
  options.timeout = 0;
  options.rnr_retry = 7;
  return options;
}

std::uint32_t ShardsWorld::any_shard_of(std::uint32_t host) {
  return host * cluster.shards_of_each() + random_.below(cluster.shards_of_each());
}

void ShardsWorld::come_to_rest() {
  for (int round = 0; !cluster.at_rest(); ++round) {
    require(round < 1000, "the hosts do not come to rest within a second");
    pass(milliseconds(1));
  }
}

void ShardsWorld::start(std::uint32_t index) {
  shard_of[index] = any_shard_of(host_of(index));
  machines.place(index, cluster.segment(shard_of[index]));
  cluster.run(shard_of[index], index, machines.adapter(index));
  must(machines.open(index).bind_gid(0, gid_of_[index]));
  boot(index, gid_of_[index]);
}

void ShardsWorld::pass(Duration time) {
  const Instant end = machines.now() + time;
  while (true) {
    for (int turns = 0; cluster.turn(); ++turns) require(turns < 1'000'000, "the shards never come to rest");
    if (random_.chance(kVerificationsPerMille)) cluster.verify_sleepers();
    if (machines.now() >= end) break;
    machines.clock().set(std::min(end, std::max(machines.now(), cluster.next_event())));
  }
  if (peace_ == Peace::kNoLoss) verify_no_loss();
}

// A shard that is away takes its guests' calls all the same, and its adapters may spend their shares in them.
void ShardsWorld::let_all_run() {
  cluster.bring_back();
  const HostShards::Weather weather = cluster.weather();
  cluster.set_weather({});
  pass(Duration(0));
  cluster.set_weather(weather);
}

// --- Guests must not notice this ---

void ShardsWorld::change_weather() {
  HostShards::Weather weather;
  switch (random_.below(4)) {
    case 0:
      break;
    case 1:
      weather = {.late_per_mille = random_.below(1000), .late_max = microseconds(1)};
      break;
    case 2:
      weather = {.late_per_mille = random_.below(500), .late_max = microseconds(random_.below(100))};
      break;
    default:
      weather = {.late_per_mille = random_.below(100), .late_max = microseconds(random_.below(2000))};
  }
  cluster.set_weather(weather);
}

// Between two shards of different hosts.
void ShardsWorld::disturb_lanes() {
  LaneNetwork& lanes = cluster.lanes();
  const std::uint32_t own = any_shard();
  const std::uint32_t host =
      (cluster.host_of(own) + 1 + random_.below(cluster.hosts() - 1)) % cluster.hosts();
  const transport::HostId a = LaneNetwork::id_of(own);
  const transport::HostId b = LaneNetwork::id_of(any_shard_of(host));
  const std::uint32_t choice = random_.below(peace_ == Peace::kNoLoss ? 2 : 4);
  if (choice == 0) {
    lanes.weather.delay_max = microseconds(random_.chance(200) ? random_.below(2000) : random_.below(100));
    lanes.weather.pieces_per_mille = random_.chance(600) ? random_.below(1001) : 0;
  } else if (choice == 1) {
    lanes.stall(a, b, machines.now() + random_.up_to(milliseconds(2)));
  } else {
    ++tally_.breaks;
    lanes.break_lanes(a, b, random_.chance(500), random_.up_to(milliseconds(4)), machines.now());
  }
}

void ShardsWorld::disturb_hcas() {
  const std::uint32_t shard = any_shard();
  if (random_.chance(500)) {
    ++shards_tally_.pipes_broken;
    return cluster.break_pipes(shard);
  }
  ++shards_tally_.ports_down;
  cluster.set_port(shard, false);
  pass(random_.up_to(milliseconds(4)));
  cluster.set_port(shard, true);
}

// The adapter moves to another shard of its host. Or, as a VM moves from host to host, to a shard which may
// be its own, and for a while it may be on none then. Without a timer, a peer on another host would not ask
// again after that, nor if the VM is back before the peer has heard of its move (ADR 31).
void ShardsWorld::replace(std::uint32_t index) {
  if (peace_ == Peace::kNoLoss || (peace_ == Peace::kNoTrouble && !random_.chance(kMovesPerMille))) return;
  const bool only_moves = cluster.hosts() > 1 && peace_ != Peace::kNone;
  if (only_moves || (cluster.shards_of_each() > 1 && random_.chance(500))) {
    if (const auto to = shard_to_move_to(index)) move(index, *to);
    return;
  }
  ++tally_.adapters_replaced;
  asked(index);
  cluster.end(shard_of[index], index);
  machines.take_away(index);
  if (random_.chance(500)) pass(random_.up_to(kAwayMax));
  const std::uint32_t shard = any_shard_of(host_of(index));
  if (shard != std::exchange(shard_of[index], shard)) ++shards_tally_.moved;
  machines.bring_back(index, cluster.segment(shard));
  cluster.run(shard, index, machines.adapter(index));
}

// Empty: other hosts might not notice the move, because the VM was there a moment ago.
std::optional<std::uint32_t> ShardsWorld::shard_to_move_to(std::uint32_t index) {
  const std::uint32_t first = host_of(index) * cluster.shards_of_each();
  std::vector<std::uint32_t> shards;
  for (std::uint32_t shard = first; shard < first + cluster.shards_of_each(); ++shard) {
    const bool is_news = peace_ == Peace::kNone || cluster.hosts() == 1 ||
                         machines.now() >= left_at_[{index, shard}] + kNewsMax;
    if (shard != shard_of[index] && is_news) shards.push_back(shard);
  }
  if (shards.empty()) return {};
  return shards[random_.below(static_cast<std::uint32_t>(shards.size()))];
}

// As adapters::ShardPlacement does it, with time between its steps.
void ShardsWorld::move(std::uint32_t index, std::uint32_t to) {
  const auto wait = [this] {
    if (random_.chance(500)) pass(random_.up_to(kAwayMax));
  };
  const std::uint32_t from = shard_of[index];
  ++tally_.adapters_replaced;
  asked(index);
  machines.begin_move(index, cluster.segment(to));
  cluster.run(to, index, machines.adapter(index));
  wait();
  cluster.wake(from);
  if (random_.chance(200)) {
    ++shards_tally_.turned_away;
    cluster.end(to, index);
    machines.turn_away(index);
  } else {
    ++shards_tally_.moved;
    cluster.end(from, index);
    machines.hand_over(index);
    shard_of[index] = to;
    left_at_[{index, from}] = machines.now();
  }
  wait();
  asked(index);
  machines.settle(index);
}

// Leaves requests of that side in a ring, or the answers to them, for what happens next.
void ShardsWorld::fill_rings(std::size_t index, int side) {
  Connection& one = connection(index);
  one.post_requests(side, random_.chance(200) ? 24 : random_.between(1, 6), Mix{});
  if (random_.chance(500)) return;
  for (std::uint32_t vm = 0; vm < machines.count(); ++vm) {
    if (one.is_side_on(side, vm)) cluster.hold(shard_of[vm], microseconds(100));
  }
  pass(random_.up_to(microseconds(50)));
}

// As before a look at the log of written pages. What was lent is said again, before anything newer.
void ShardsWorld::stop_loans(std::size_t index, int side) {
  ++shards_tally_.loans_stopped;
  fill_rings(index, side);
  for (std::uint32_t vm = 0; vm < machines.count(); ++vm) {
    if (!connection(index).uses_vm(vm)) continue;
    asked(vm);
    machines.adapter(vm).engine().stop_loans();
  }
  connection(index).post_requests(side, random_.between(1, 6), Mix{});
}

// As while the VM is written to a file: its guest does nothing, nothing reaches the adapter, and it sends
// nothing.
void ShardsWorld::stop_adapter(std::uint32_t index) {
  using enum vfio_user::MigrationState;
  ++shards_tally_.adapters_stopped;
  const auto change = [&](vfio_user::MigrationState state) {
    asked(index);
    require(machines.adapter(index).set_migration_state(state).error == 0, "an adapter cannot be stopped");
  };
  change(kStop);
  pass(random_.up_to(kAwayMax));
  change(kRunning);
}

// What is sent meanwhile is lost, and nobody is told.
void ShardsWorld::take_link_down(std::uint32_t index, Duration time) {
  ++shards_tally_.links_down;
  const auto set_link = [&](bool up) {
    asked(index);
    machines.port(index).set_link(up);
    machines.adapter(index).set_link(up);
  };
  set_link(false);
  pass(time);
  set_link(true);
}

// --- Trouble: it may end connections ---

void ShardsWorld::lose(std::uint32_t index) {
  stop(index);
  asked(index);
  pass(milliseconds(5));  // messages in flight must not reach the dead guest's memory; bury() checks it again
  bury(index);
  cluster.end(shard_of[index], index);
  machines.remove(index);
  start(index);
  connect_all();
}

// Two VMs of a host exchange their addresses. Their old QPs still send from the old addresses, and no peer
// accepts that.
void ShardsWorld::swap_gids(std::uint32_t a, std::uint32_t b) {
  if (a == b || host_of(a) != host_of(b)) return;
  each_connection([&](Connection& one) {
    if (one.uses_vm(a) || one.uses_vm(b)) one.trouble();
  });
  for (const std::uint32_t vm : {a, b}) {
    vms_[vm].datagrams.reset();
    must(machines.open(vm).unbind_gid(0, gid_of_[vm]));
  }
  std::swap(gid_of_[a], gid_of_[b]);
  for (const std::uint32_t vm : {a, b}) {
    must(machines.open(vm).bind_gid(0, gid_of_[vm]));
    readdress(vm, gid_of_[vm]);
    if (shard_of[a] != shard_of[b]) ++shards_tally_.gids_moved;
  }
}

void ShardsWorld::make_trouble(std::size_t index, int side) {
  const std::uint32_t vm = any_vm();
  fill_rings(index, random_.chance(700) ? side : 1 - side);
  switch (random_.below(8)) {
    case 0:
    case 1:
      return connection(index).to_error(side, machines.now());
    case 2:
    case 3:
      return connection(index).destroy_qp(side, machines.now());
    case 4:
      each_connection([&](Connection& one) {
        if (one.uses_vm(vm)) one.trouble();
      });
      return take_link_down(vm, random_.up_to(milliseconds(250)));  // after 8 times 16.8 ms requests give up
    case 5:
      return swap_gids(vm, any_vm());
    default:
      return lose(vm);
  }
}

void ShardsWorld::disturb(std::size_t index) {
  const std::uint32_t choice = random_.below(43);
  const int side = random_.chance(500) ? 1 : 0;
  if (cluster.has_hcas() && random_.chance(200)) {
    disturb_hcas();
  } else if (cluster.hosts() > 1 && random_.chance(300)) {
    disturb_lanes();
  } else if (choice < 8) {
    change_weather();
  } else if (choice < 22) {
    cluster.hold(any_shard(), random_.up_to(kAwayMax));
  } else if (choice < 26) {
    stop_loans(index, side);
  } else if (peace_ != Peace::kNoLoss && choice < 28) {
    stop_adapter(any_vm());
  } else if (peace_ == Peace::kNone && choice < 30) {
    take_link_down(any_vm(), random_.up_to(milliseconds(8)));
  } else if (peace_ == Peace::kNone) {
    make_trouble(index, side);
  }
}

// --- The end ---

void ShardsWorld::calm_down() {
  cluster.set_weather({});
  cluster.bring_back();
  cluster.lanes().weather = {};
  come_to_rest();
  verify_paths();
}

// A pipe that failed before may be
// dialled again after kRedialMax only, and its dial may have been under way when its host was calmed down.
void ShardsWorld::verify_paths() {
  cluster.want_pipes();
  auto wrong = wrong_path();
  const Instant until = machines.now() + 2 * transport::hca::kRedialMax;
  while (wrong && cluster.has_hcas() && machines.now() < until) {
    pass(milliseconds(1));
    wrong = wrong_path();
  }
  require(!wrong, wrong ? *wrong : "");
  require(cluster.crimes() == 0, "a NIC saw what no program may do");
}

// Every shard knows the path to every VM.
std::optional<std::string> ShardsWorld::wrong_path() {
  const auto outwards = cluster.has_hcas() ? transport::PathKind::kHca : transport::PathKind::kTcp;
  for (std::uint32_t shard = 0; shard < cluster.shards(); ++shard) {
    for (std::uint32_t vm = 0; vm < machines.count(); ++vm) {
      const auto path = cluster.segment(shard).path_to(verbs::Gid{gid_of_[vm].raw});
      const bool is_here = host_of(vm) == cluster.host_of(shard);
      if (path.kind != (is_here ? transport::PathKind::kLocal : outwards))
        return "a path is " + std::string(to_text(path.kind)) + ": " + path.reason;
    }
  }
  return {};
}

// What was revoked is said again before anything newer, so no QP has seen a gap. (Datagrams may be lost.)
void ShardsWorld::verify_no_loss() {
  for (std::uint32_t i = 0; i < machines.count(); ++i) {
    const verbs::Counters& counters = machines.adapter(i).engine().counters();
    require(counters.sequence_naks_sent == 0, "a request did not arrive before its successor");
  }
}

}  // namespace pvrdma::sim
