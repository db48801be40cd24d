#include "sim/world.h"

#include <algorithm>

#include "support/memory_audit.h"
#include "support/must.h"

namespace pvrdma::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

World::World(std::uint64_t seed, std::uint32_t connections, const Mix& mix, test::Machines& machines)
    : random_(seed), machines_(machines), vms_(machines.count()), mix_(mix), connections_(connections) {}

World::~World() = default;

Mix World::mix_of(std::uint64_t seed) {
  return {.fault_per_mille = seed % 3 == 0 ? 0u : 4u, .bad_receive_per_mille = seed % 4 == 0 ? 5u : 0u};
}

void World::leave() {
  connections_.clear();
  vms_.clear();
}

void World::boot(std::uint32_t index, const abi::Gid& gid) {
  VmState& state = vms_[index];
  state.vm = {.index = index, .gid = gid, .device = &machines_.open(index)};
  state.user = must(driver::Context::create_user(*state.vm.device));
  state.vm.user = state.user.get();
  state.vm.hides_doorbells = machines_.adapter(index).info().doorbells == DoorbellMode::kMapped;
  readdress(index, gid);
}

void World::readdress(std::uint32_t index, const abi::Gid& gid) {
  VmState& state = vms_[index];
  state.vm.gid = gid;
  state.datagrams = std::make_unique<Datagrams>(random_, state.vm);
}

void World::stop(std::uint32_t index) {
  ++tally_.vms_lost;
  poll_all();
  each_connection([&](Connection& one) {
    for (int side = 0; side < 2; ++side) {
      if (one.is_side_on(side, index)) one.lose_vm(side);
    }
  });
  if (random_.chance(500)) {
    machines_.kill(index);
  } else {
    must(vms_[index].vm.device->close());
  }
  each_connection([&](const Connection& one) {
    if (one.uses_vm(index)) one.verify();
  });
}

void World::bury(std::uint32_t index) {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] && connections_[i]->uses_vm(index)) finish(i);
  }
  vms_[index].datagrams.reset();
  vms_[index].user.reset();
  vms_[index].vm = {};
  machines_.forget_device(index);
}

test::ConnectOptions World::connect_options() {
  return {.timeout = 10,  // 16.8 ms
          .retry_cnt = 7,
          .rnr_retry = static_cast<std::uint8_t>(random_.chance(150) ? 3 : 7),
          .min_rnr_timer = static_cast<std::uint8_t>(random_.between(1, 14)),
          .max_rd_atomic = static_cast<std::uint8_t>(random_.between(1, 16)),
          .first_psn = random_.chance(300) ? 0xff'fff0u : random_.below(1u << 24)};
}

void World::connect(std::size_t index) {
  std::vector<const Vm*> on;
  for (const VmState& state : vms_) {
    if (state.vm.device != nullptr) on.push_back(&state.vm);
  }
  const auto count = static_cast<std::uint32_t>(on.size());
  if (count < 2) return;
  const std::uint32_t a = random_.below(count);
  const std::uint32_t b = random_.chance(100) ? a : (a + 1 + random_.below(count - 1)) % count;
  connections_[index] = std::make_unique<Connection>("connection " + std::to_string(++connections_made_),
                                                     random_, *on[a], *on[b], connect_options());
  connected(*connections_[index]);
}

void World::connect_all() {
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i]) connect(i);
  }
}

// Ends a connection and checks its remains. Its place is empty afterwards.
void World::finish(std::size_t index) {
  let_all_run();
  connections_[index]->finish(machines_.now());
  connections_[index].reset();
  ++tally_.connections_finished;
}

void World::poll_all() {
  each_connection([this](Connection& one) {
    const std::size_t count = one.poll(machines_.now());
    tally_.completions += count;
    note(count);
  });
  for (VmState& state : vms_) {
    if (!state.datagrams) continue;
    const std::uint64_t before = state.datagrams->received();
    state.datagrams->poll();
    tally_.datagrams_received += state.datagrams->received() - before;
    note(state.datagrams->received());
  }
  note(static_cast<std::uint64_t>(machines_.now().since_start.count()));
}

// Waits until a connection has completed all its requests. With paths that heal and enough receives, it
// always can.
void World::settle(Connection& connection) {
  connection.go_on();
  for (int side = 0; side < 2; ++side) connection.post_marker(side);
  const Instant until = machines_.now() + patience();
  while (machines_.now() < until) {
    for (int side = 0; side < 2; ++side) connection.post_receives(side, 4, {});
    pass(microseconds(500));
    tally_.completions += connection.poll(machines_.now());
    if (connection.busy()) continue;
    if (!connection.broken()) connection.verify_at_rest();
    return;
  }
  throw Violation(connection.name() + ": work requests were not completed within " +
                  std::to_string(microseconds_of(patience()) / 1000) + " ms");
}

void World::work(Connection& connection) {
  const int side = random_.chance(500) ? 1 : 0;
  switch (random_.below(10)) {
    case 0:
    case 1:
    case 2:
      connection.post_receives(1 - side, random_.between(1, 6), mix_);
      break;
    case 3:
      connection.toggle_drain(side);
      break;
    case 4:
      connection.arm(machines_.now());
      break;
    default:
      connection.post_requests(side, random_.between(1, 6), mix_);
      break;
  }
}

void World::send_datagram() {
  VmState& from = vms_[any_vm()];
  VmState& to = vms_[any_vm()];
  if (!from.datagrams || !to.datagrams) return;
  to.datagrams->post_receive();
  from.datagrams->send(*to.datagrams);
}

void World::replace(std::uint32_t index) {
  ++tally_.adapters_replaced;
  machines_.replace_adapter(index);
  const bool under_way_is_lost = random_.chance(500);  // as after a move to another host
  if (!under_way_is_lost) return;
  machines_.adapter(index).engine().on_all_paths_restored(machines_.now());
}

void World::audit_log() {
  constexpr int kRounds = 4;
  constexpr Duration kRound = microseconds(500);
  if (guests_rest_until() <= machines_.now() + kRounds * kRound) return;
  test::MemoryAudit audit(random_.below(1'000'000));
  for (std::uint32_t i = 0; i < machines_.count(); ++i) {
    if (is_on(i)) audit.add(vms_[i].vm.device->ram(), machines_.adapter(i).memory());
  }
  for (int round = 0; round < kRounds; ++round) {
    if (const auto& connection = connections_[random_.below(static_cast<std::uint32_t>(connections_.size()))])
      work(*connection);
    audit.look();
    pass(random_.up_to(kRound));
    for (std::uint32_t i = 0; i < machines_.count(); ++i) {
      if (!is_on(i)) continue;
      asked(i);
      machines_.adapter(i).engine().stop_loans();  // as before a move's last look at the log
    }
    audit.check();
    poll_all();
  }
  audit.finish();
  for (const std::string& missed : audit.missed()) throw Violation(missed);
  tally_.pages_audited += audit.changes();
}

void World::step() {
  if (random_.chance(kAuditsPerMille)) audit_log();
  if (random_.chance(kReplacementsPerMille)) {
    if (const std::uint32_t vm = any_vm(); is_on(vm)) replace(vm);
  }
  const std::size_t index = random_.below(static_cast<std::uint32_t>(connections_.size()));
  if (!connections_[index]) connect(index);
  const std::uint32_t choice = random_.below(1000);
  if (!connections_[index] || (choice >= 550 && choice < 700)) {
    pass(random_.up_to(microseconds(200)));
  } else if (choice < 550) {
    work(*connections_[index]);
  } else if (choice < 850) {
    poll_all();
  } else if (choice < 950) {
    send_datagram();
  } else if (choice < 957) {
    settle(*connections_[index]);
  } else {
    disturb(index);
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i] && connections_[i]->broken() && random_.chance(100)) {
      pass(random_.up_to(milliseconds(50)));
      finish(i);
      connect(i);
    }
  }
}

void World::wind_up() {
  calm_down();
  connect_all();
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    settle(*connections_[i]);
    finish(i);
  }
  for (std::uint32_t i = 0; i < machines_.count(); ++i) {
    const driver::Device::Oddities odd = vms_[i].vm.device->oddities();
    require(odd.unexpected_responses == 0, "a response interrupt came without a command");
    require(odd.unknown_notifications == 0, "a notification names no CQ");
    require(odd.broken_rings == 0, "an event ring has impossible indices");
    vms_[i].datagrams.reset();
    vms_[i].user.reset();
    const verbs::Counters counters = machines_.adapter(i).info().verbs_counters;
    tally_.hidden_doorbells += counters.hidden_doorbells;
    tally_.events_maybe_armed += counters.events_maybe_armed;
    const auto left = machines_.adapter(i).engine().object_counts();
    require(left.qps + left.cqs + left.mrs + left.srqs + left.pds + left.contexts == 0,
            "objects are left over");
  }
}

}  // namespace pvrdma::sim
