#include "sim/shards_world.h"

#include <algorithm>
#include <string>
#include <utility>

#include "support/must.h"

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

constexpr Duration kAwayMax = milliseconds(3);  // longer than any shard comes late
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
  options.before_each_call = [&parts](std::uint32_t vm) { parts.host.wake(parts.shard_of[vm]); };
  return options;
}

Mix guest_mix(const ShardsOptions& options) {
  return options.peace == Peace::kNone ? World::mix_of(options.seed) : Mix{};
}

}  // namespace

ShardsParts::ShardsParts(const ShardsOptions& options)
    : shard_of(options.vms),
      machines(waking(machine_options(options), *this)),
      host(options.seed, options.shards, machines.clock()) {}

ShardsWorld::ShardsWorld(const ShardsOptions& options)
    : ShardsParts(options),
      World(options.seed, options.connections, guest_mix(options), machines),
      peace_(options.peace) {
  for (std::uint32_t i = 0; i < options.vms; ++i) {
    gid_of_.push_back(test::gid_of(i));
    start(i);
  }
  connect_all();
}

ShardsWorld::~ShardsWorld() {
  leave();
  for (std::uint32_t i = 0; i < machines.count(); ++i) {
    host.end(shard_of[i], i);
    machines.remove(i);
  }
}

ShardsWorld::ShardsTally ShardsWorld::shards_tally() const {
  ShardsTally all = shards_tally_;
  all.rings = host.tally();
  return all;
}

test::ConnectOptions ShardsWorld::connect_options() {
  test::ConnectOptions options = World::connect_options();
  if (peace_ == Peace::kNone) return options;
  options.timeout = 0;
  options.rnr_retry = 7;
  return options;
}

void ShardsWorld::start(std::uint32_t index) {
  shard_of[index] = any_shard();
  machines.place(index, host.segment(shard_of[index]));
  host.run(shard_of[index], index, machines.adapter(index));
  must(machines.open(index).bind_gid(0, gid_of_[index]));
  boot(index, gid_of_[index]);
}

void ShardsWorld::pass(Duration time) {
  const Instant end = machines.now() + time;
  while (true) {
    for (int turns = 0; host.turn(); ++turns) require(turns < 1'000'000, "the shards never come to rest");
    if (random_.chance(kVerificationsPerMille)) host.verify_sleepers();
    if (machines.now() >= end) break;
    machines.clock().set(std::min(end, std::max(machines.now(), host.next_event())));
  }
  if (peace_ == Peace::kNoLoss) verify_no_loss();
}

// A shard that is away takes its guests' calls all the same, and its adapters may spend their shares in them.
void ShardsWorld::let_all_run() {
  host.bring_back();
  const HostShards::Weather weather = std::exchange(host.weather, {});
  pass(Duration(0));
  host.weather = weather;
}

// --- Guests must not notice this ---

void ShardsWorld::change_weather() {
  host.weather = {};
  switch (random_.below(4)) {
    case 0:
      break;
    case 1:
      host.weather = {.late_per_mille = random_.below(1000), .late_max = microseconds(1)};
      break;
    case 2:
      host.weather = {.late_per_mille = random_.below(500), .late_max = microseconds(random_.below(100))};
      break;
    default:
      host.weather = {.late_per_mille = random_.below(100), .late_max = microseconds(random_.below(2000))};
  }
}

// The adapter moves to another shard, or, as a VM moves from host to host, to a shard which may be its own.
// For a while it may be on none then.
void ShardsWorld::replace(std::uint32_t index) {
  if (peace_ == Peace::kNoLoss || (peace_ == Peace::kNoTrouble && !random_.chance(kMovesPerMille))) return;
  ++tally_.adapters_replaced;
  if (host.count() > 1 && random_.chance(500)) return move(index);
  asked(index);
  host.end(shard_of[index], index);
  machines.take_away(index);
  if (random_.chance(500)) pass(random_.up_to(kAwayMax));
  const std::uint32_t shard = any_shard();
  if (shard != std::exchange(shard_of[index], shard)) ++shards_tally_.moved;
  machines.bring_back(index, host.segment(shard));
  host.run(shard, index, machines.adapter(index));
}

// As adapters::ShardPlacement does it, with time between its steps.
void ShardsWorld::move(std::uint32_t index) {
  const auto wait = [this] {
    if (random_.chance(500)) pass(random_.up_to(kAwayMax));
  };
  const std::uint32_t from = shard_of[index];
  const std::uint32_t to = (from + 1 + random_.below(host.count() - 1)) % host.count();
  asked(index);
  machines.begin_move(index, host.segment(to));
  host.run(to, index, machines.adapter(index));
  wait();
  host.wake(from);
  if (random_.chance(200)) {
    ++shards_tally_.turned_away;
    host.end(to, index);
    machines.turn_away(index);
  } else {
    ++shards_tally_.moved;
    host.end(from, index);
    machines.hand_over(index);
    shard_of[index] = to;
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
    if (one.is_side_on(side, vm)) host.hold(shard_of[vm], microseconds(100));
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
  host.end(shard_of[index], index);
  machines.remove(index);
  start(index);
  connect_all();
}

// Two VMs exchange their addresses. Their old QPs still send from the old addresses, and no peer accepts
// that.
void ShardsWorld::swap_gids(std::uint32_t a, std::uint32_t b) {
  if (a == b) return;
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
  if (choice < 8) {
    change_weather();
  } else if (choice < 22) {
    host.hold(any_shard(), random_.up_to(kAwayMax));
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
  host.weather = {};
  host.bring_back();
  verify_paths();
}

// Every shard knows the path to every VM.
void ShardsWorld::verify_paths() {
  for (std::uint32_t shard = 0; shard < host.count(); ++shard) {
    for (const abi::Gid& gid : gid_of_) {
      const auto path = host.segment(shard).path_to(verbs::Gid{gid.raw});
      require(path.kind == transport::PathKind::kLocal,
              "a path on the host is " + std::string(to_text(path.kind)) + ": " + path.reason);
    }
  }
}

// What was revoked is said again before anything newer, so no QP has seen a gap. (Datagrams may be lost.)
void ShardsWorld::verify_no_loss() {
  for (std::uint32_t i = 0; i < machines.count(); ++i) {
    const verbs::Counters& counters = machines.adapter(i).engine().counters();
    require(counters.sequence_naks_sent == 0, "a request did not arrive before its successor");
  }
}

}  // namespace pvrdma::sim
