#include "sim/world.h"

#include <algorithm>

#include "support/must.h"

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

test::TestbenchOptions bench_options(const WorldOptions& options, Network& network) {
  test::TestbenchOptions out;
  out.adapter_count = options.vms;
  out.hardware_version = options.hardware_version;
  out.driver.ram.size_bytes = 96u << 20;
  out.transport = &network;
  return out;
}

}  // namespace

World::World(const WorldOptions& options)
    : random_(options.seed),
      mix_{.fault_per_mille = options.seed % 3 == 0 ? 0u : 4u,
           .bad_receive_per_mille = options.seed % 4 == 0 ? 5u : 0u},
      network_(random_.next()),
      bench_(bench_options(options, network_)),
      vms_(options.vms),
      connections_(options.connections) {
  for (std::uint32_t i = 0; i < options.vms; ++i) boot(i);
  for (std::size_t i = 0; i < connections_.size(); ++i) connect(i);
}

World::~World() {
  connections_.clear();
  for (VmState& vm : vms_) vm.datagrams.reset();
}

void World::boot(std::uint32_t index) {
  VmState& state = vms_[index];
  state.vm.index = index;
  state.vm.gid = test::gid_of(index);
  state.vm.device = &bench_.device(index);
  state.user = must(driver::Context::create_user(*state.vm.device));
  state.vm.user = state.user.get();
  state.datagrams = std::make_unique<Datagrams>(random_, state.vm);
}

// The VM dies, or its driver lets go of the adapter without a word to its objects.
void World::lose(std::uint32_t index) {
  ++tally_.vms_lost;
  poll_all();
  for (auto& connection : connections_) {
    for (int side = 0; side < 2; ++side) {
      if (connection->is_side_on(side, index)) connection->lose_vm(side);
    }
  }
  if (random_.chance(500)) {
    bench_.kill(index);
  } else {
    must(vms_[index].vm.device->close());
  }
  const auto hit = [&](const auto& connection) { return connection->uses_vm(index); };
  for (const auto& connection : connections_) {
    if (hit(connection)) connection->verify();
  }
  pass(milliseconds(5));  // nothing reaches the dead guest's memory any more: finish() verifies again
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (hit(connections_[i])) finish(i);
  }
  vms_[index].datagrams.reset();
  vms_[index].user.reset();
  bench_.forget_device(index);
  boot(index);
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (!connections_[i]) connect(i);
  }
}

void World::connect(std::size_t index) {
  const auto count = static_cast<std::uint32_t>(vms_.size());
  const Vm& a = vms_[random_.below(count)].vm;
  const Vm& b = vms_[random_.chance(100) ? a.index : (a.index + 1 + random_.below(count - 1)) % count].vm;
  const test::ConnectOptions options{.timeout = 10,  // 4.2 ms
                                     .retry_cnt = 7,
                                     .rnr_retry = static_cast<std::uint8_t>(random_.chance(150) ? 3 : 7),
                                     .min_rnr_timer = static_cast<std::uint8_t>(random_.between(1, 14)),
                                     .max_rd_atomic = static_cast<std::uint8_t>(random_.between(1, 16)),
                                     .first_psn = random_.chance(300) ? 0xff'fff0u : random_.below(1u << 24)};
  connections_[index] = std::make_unique<Connection>("connection " + std::to_string(++connections_made_),
                                                     random_, a, b, options);
}

// Ends a connection and checks what it leaves behind; its place is empty afterwards.
void World::finish(std::size_t index) {
  connections_[index]->finish();
  connections_[index].reset();
  ++tally_.connections_finished;
}

void World::pass(Duration time) {
  const Instant end = bench_.now() + time;
  for (;;) {
    Instant next = std::min(end, network_.next_event());
    for (std::uint32_t i = 0; i < vms_.size(); ++i) next = std::min(next, bench_.adapter(i).next_deadline());
    bench_.advance(std::max(Duration(0), next - bench_.now()));
    network_.deliver(bench_.now());
    tell_ready();
    require(bench_.run(), "the adapters never come to rest");
    if (bench_.now() >= end && network_.next_event() > end) return;
  }
}

void World::tell_ready() {
  if (!network_.take_ready(bench_.now())) return;
  for (std::uint32_t i = 0; i < vms_.size(); ++i) bench_.adapter(i).engine().on_path_ready(bench_.now());
}

// A connection between two VMs is lost with everything on it, and made anew: nobody loses anything by that.
void World::break_path() {
  ++tally_.breaks;
  const std::uint32_t a = random_.below(static_cast<std::uint32_t>(vms_.size()));
  const std::uint32_t b = random_.below(static_cast<std::uint32_t>(vms_.size()));
  const verbs::Gid gid_a{test::gid_of(a).raw};
  const verbs::Gid gid_b{test::gid_of(b).raw};
  network_.lose_all(gid_a, gid_b);
  bench_.adapter(a).engine().on_path_restored([&](const verbs::Gid& peer) { return peer == gid_b; },
                                              bench_.now());
  bench_.adapter(b).engine().on_path_restored([&](const verbs::Gid& peer) { return peer == gid_a; },
                                              bench_.now());
}

void World::poll_all() {
  for (auto& connection : connections_) {
    if (!connection) continue;
    const std::size_t count = connection->poll();
    tally_.completions += count;
    note(count);
  }
  for (VmState& vm : vms_) {
    const std::uint64_t before = vm.datagrams->received();
    vm.datagrams->poll();
    tally_.datagrams_received += vm.datagrams->received() - before;
    note(vm.datagrams->received());
  }
  note(static_cast<std::uint64_t>(bench_.now().since_start.count()));
}

// Lets a connection finish what it has; with a whole network and receives enough it always can.
void World::drain(Connection& connection) {
  connection.go_on();
  for (int round = 0; round < 2000; ++round) {
    for (int side = 0; side < 2; ++side) connection.post_receives(side, 4, {});
    pass(microseconds(500));
    connection.poll();
    if (!connection.busy()) return;
  }
  throw Violation("work requests were not completed within a second");
}

void World::change_weather() {
  Weather& weather = network_.weather;
  weather = Weather{};
  switch (random_.below(5)) {
    case 0:
      weather.immediate = true;
      break;
    case 1:
      weather.delay_max = microseconds(1);
      break;
    case 2:
      weather.delay_max = microseconds(random_.between(1, 100));
      weather.drop_per_mille = random_.below(50);
      break;
    case 3:
      weather.delay_min = microseconds(random_.below(1000));
      weather.delay_max = weather.delay_min + microseconds(random_.below(3000));
      weather.duplicate_per_mille = random_.below(200);
      break;
    default:
      weather.delay_max = microseconds(random_.between(1, 50));
      weather.duplicate_per_mille = random_.below(100);
      weather.drop_per_mille = random_.below(20);
  }
  if (random_.chance(400)) {
    weather.refuse_per_mille = random_.below(300);
    weather.busy_max = microseconds(random_.between(1, 500));
  }
  if (random_.chance(300)) weather.part_per_mille = random_.below(500);
  if (random_.chance(600)) {
    weather.pieces_per_mille = random_.below(1001);
    weather.torn_per_mille = random_.below(20);
  }
}

void World::make_trouble(std::size_t index) {
  Connection& connection = *connections_[index];
  const int side = random_.chance(500) ? 1 : 0;
  switch (random_.below(4)) {
    case 0:
      connection.to_error(side);
      break;
    case 1:
      connection.destroy_qp(side);
      break;
    case 2:
      network_.cut(verbs::Gid{test::gid_of(0).raw}, verbs::Gid{test::gid_of(1).raw});
      for (auto& one : connections_) one->trouble();
      pass(random_.up_to(milliseconds(60)));  // with 8 times 4.2 ms some requests give up
      network_.heal();
      break;
    default:
      lose(random_.below(static_cast<std::uint32_t>(vms_.size())));
      break;
  }
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
      connection.arm();
      break;
    default:
      connection.post_requests(side, random_.between(1, 6), mix_);
      break;
  }
}

void World::step() {
  const std::size_t index = random_.below(static_cast<std::uint32_t>(connections_.size()));
  Connection& connection = *connections_[index];
  const std::uint32_t choice = random_.below(1000);
  if (choice < 550) {
    work(connection);
  } else if (choice < 700) {
    pass(random_.up_to(microseconds(200)));
  } else if (choice < 850) {
    poll_all();
  } else if (choice < 950) {
    VmState& from = vms_[random_.below(static_cast<std::uint32_t>(vms_.size()))];
    VmState& to = vms_[random_.below(static_cast<std::uint32_t>(vms_.size()))];
    to.datagrams->post_receive();
    from.datagrams->send(*to.datagrams);
  } else if (choice < 970) {
    change_weather();
  } else if (choice < 985) {
    break_path();
  } else if (choice < 992) {
    drain(connection);
    if (!connection.broken()) connection.verify();
  } else {
    make_trouble(index);
  }
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    if (connections_[i]->broken() && random_.chance(100)) {
      pass(random_.up_to(milliseconds(50)));
      finish(i);
      connect(i);
    }
  }
}

void World::wind_up() {
  network_.weather = Weather{.delay_max = microseconds(10)};
  for (std::size_t i = 0; i < connections_.size(); ++i) {
    Connection& connection = *connections_[i];
    for (int side = 0; side < 2; ++side) connection.post_marker(side);
    drain(connection);
    if (!connection.broken()) connection.verify();
    finish(i);
  }
  for (std::uint32_t i = 0; i < vms_.size(); ++i) {
    const driver::Device::Oddities odd = vms_[i].vm.device->oddities();
    require(odd.unexpected_responses == 0, "a response interrupt came without a command");
    require(odd.unknown_notifications == 0, "a notification names no CQ");
    require(odd.broken_rings == 0, "an event ring has impossible indices");
    vms_[i].datagrams.reset();
    vms_[i].user.reset();
    const auto left = bench_.adapter(i).engine().object_counts();
    require(left.qps + left.cqs + left.mrs + left.srqs + left.pds + left.contexts == 0,
            "objects are left over");
  }
}

}  // namespace pvrdma::sim
