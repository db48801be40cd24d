#include "sim/one_host_world.h"

#include <algorithm>

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;

test::TestbenchOptions bench_options(const OneHostOptions& options, Network& network) {
  test::TestbenchOptions out;
  out.adapter_count = options.vms;
  out.hardware_version = options.hardware_version;
  out.doorbells = options.doorbells;
  out.driver.ram.size_bytes = 96u << 20;
  out.transport = &network;
  return out;
}

}  // namespace

OneHost::OneHost(const OneHostOptions& options)
    : network(~options.seed), bench(bench_options(options, network)) {}

OneHostWorld::OneHostWorld(const OneHostOptions& options)
    : OneHost(options), World(options.seed, options.connections, mix_of(options.seed), bench) {
  for (std::uint32_t i = 0; i < options.vms; ++i) start(i);
  connect_all();
}

OneHostWorld::~OneHostWorld() {
  leave();
}

void OneHostWorld::start(std::uint32_t index) {
  bench.device(index);
  boot(index, test::gid_of(index));
}

void OneHostWorld::lose(std::uint32_t index) {
  stop(index);
  pass(milliseconds(5));  // messages in flight must not reach the dead guest's memory; bury() checks it again
  bury(index);
  start(index);
  connect_all();
}

void OneHostWorld::pass(Duration time) {
  const Instant end = bench.now() + time;
  for (;;) {
    const Instant next = std::min({end, network.next_event(), bench.next_deadline()});
    bench.advance(std::max(Duration(0), next - bench.now()));
    network.deliver(bench.now());
    tell_ready();
    require(bench.run(), "the adapters never come to rest");
    if (bench.now() >= end && network.next_event() > end) return;
  }
}

void OneHostWorld::replace(std::uint32_t index) {
  const verbs::Engine* before = &bench.adapter(index).engine();
  World::replace(index);
  network.redirect(before, bench.adapter(index).engine());
}

void OneHostWorld::tell_ready() {
  if (!network.take_ready(bench.now())) return;
  for (std::uint32_t i = 0; i < bench.count(); ++i) bench.adapter(i).engine().on_path_ready();
}

// The path between two VMs is lost with everything in flight, and made again. The guests must not notice
// that.
void OneHostWorld::break_path() {
  ++tally_.breaks;
  const std::uint32_t a = any_vm();
  const std::uint32_t b = any_vm();
  const verbs::Gid gid_a{test::gid_of(a).raw};
  const verbs::Gid gid_b{test::gid_of(b).raw};
  network.lose_all(gid_a, gid_b);
  bench.adapter(a).engine().on_path_restored(
      [&](const verbs::Endpoint&, const verbs::Endpoint& peer) { return peer.gid == gid_b; }, bench.now());
  bench.adapter(b).engine().on_path_restored(
      [&](const verbs::Endpoint&, const verbs::Endpoint& peer) { return peer.gid == gid_a; }, bench.now());
}

void OneHostWorld::change_weather() {
  Weather& weather = network.weather;
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

void OneHostWorld::make_trouble(std::size_t index) {
  const int side = random_.chance(500) ? 1 : 0;
  switch (random_.below(4)) {
    case 0:
      connection(index).to_error(side, machines_.now());
      break;
    case 1:
      connection(index).destroy_qp(side, machines_.now());
      break;
    case 2:
      network.cut(verbs::Gid{test::gid_of(0).raw}, verbs::Gid{test::gid_of(1).raw});
      each_connection([](Connection& one) { one.trouble(); });
      pass(random_.up_to(milliseconds(250)));  // after 8 times 16.8 ms requests give up
      network.heal();
      break;
    default:
      lose(any_vm());
      break;
  }
}

void OneHostWorld::disturb(std::size_t index) {
  const std::uint32_t choice = random_.below(43);
  if (choice < 20) {
    change_weather();
  } else if (choice < 35) {
    break_path();
  } else {
    make_trouble(index);
  }
}

void OneHostWorld::calm_down() {
  network.weather = Weather{.delay_max = microseconds(10)};
}

}  // namespace pvrdma::sim
