#include "sim/native_world.h"

#include <algorithm>

#include "support/must.h"

namespace pvrdma::sim {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using test::must;

constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 10};
constexpr Duration kInterruptionMax = milliseconds(10);  // shorter than the first of eight attempts

test::MachineOptions machine_options(const NativeOptions& options) {
  test::MachineOptions out;
  out.adapter_count = options.vms;
  out.roce = options.roce;
  out.doorbells = options.doorbells;
  out.may_reach_natives = true;
  out.driver.ram.size_bytes = 96u << 20;
  return out;
}

}  // namespace

NativeParts::Host::Host(std::uint32_t index, const Clock& clock, Wire& wire)
    : fabric(clock), roce(fabric, {.connections_max = 64}) {
  must(roce.add_link([&](transport::roce::FrameHandler& handler) { return wire.plug(index, handler); }));
  roce.assign(0, kSegment);
  fabric.use(local);
  fabric.use(roce);
  fabric.segment(kSegment).set_native(fabric::NativeRule{kSegment, {}});
}

NativeParts::NativeParts(const NativeOptions& options)
    : machines(machine_options(options)), wire(~options.seed, machines.clock()) {
  for (std::uint32_t i = 0; i < options.vms; ++i) {
    hosts.push_back(std::make_unique<Host>(i, machines.clock(), wire));
    machines.place(i, hosts.back()->fabric.segment(kSegment));
  }
}

NativeWorld::NativeWorld(const NativeOptions& options)
    : NativeParts(options), World(options.seed, options.connections, mix_of(options.seed), machines) {
  for (std::uint32_t i = 0; i < options.vms; ++i) start(i);
  connect_all();
}

NativeWorld::~NativeWorld() {
  leave();
  for (std::uint32_t i = 0; i < machines.count(); ++i) machines.remove(i);
}

void NativeWorld::start(std::uint32_t index) {
  machines.device(index);
  boot(index, test::gid_of(index));
}

void NativeWorld::lose(std::uint32_t index) {
  stop(index);
  pass(milliseconds(5));  // messages in flight must not reach the dead guest's memory; bury() checks it again
  bury(index);
  start(index);
  connect_all();
}

void NativeWorld::pass(Duration time) {
  const Instant end = machines.now() + time;
  for (;;) {
    const Instant next = std::min({end, wire.next_event(), machines.next_deadline()});
    machines.advance(std::max(Duration(0), next - machines.now()));
    wire.deliver();
    bool more = false;
    for (const auto& host : hosts) more = host->roce.run(machines.now()) || more;
    require(machines.run(), "the adapters never come to rest");
    if (!more && machines.now() >= end && wire.next_event() > end) return;
  }
}

void NativeWorld::change_weather() {
  WireWeather& weather = wire.weather;
  weather = WireWeather{};
  weather.delay = microseconds(random_.below(3) == 0 ? random_.below(1000) : random_.below(20));
  switch (random_.below(4)) {
    case 0:
      break;
    case 1:
      weather.drop_per_mille = random_.below(30);
      break;
    case 2:
      weather.late_per_mille = random_.below(100);
      weather.late_max = microseconds(random_.between(1, 2000));
      weather.duplicate_per_mille = random_.below(100);
      break;
    default:
      weather.drop_per_mille = random_.below(10);
      weather.late_per_mille = random_.below(30);
      weather.late_max = microseconds(random_.between(1, 100));
      weather.duplicate_per_mille = random_.below(30);
      weather.damage_per_mille = random_.below(20);
  }
  if (random_.chance(400)) {
    weather.busy_per_mille = random_.below(100);
    weather.busy_max = microseconds(random_.between(1, 500));
  }
}

// A link is down for a while, or all frames in flight are lost.
void NativeWorld::interrupt() {
  ++tally_.breaks;
  if (random_.chance(500)) return wire.lose_all();
  const std::uint32_t host = any_vm();
  wire.set_up(host, false);
  pass(random_.up_to(kInterruptionMax));
  wire.set_up(host, true);
}

void NativeWorld::cut() {
  wire.cut(0, 1);
  each_connection([](Connection& one) { one.trouble(); });
  pass(random_.up_to(milliseconds(250)));  // after 8 times 16.8 ms requests give up
  wire.heal();
}

void NativeWorld::make_trouble(std::size_t index) {
  const int side = random_.chance(500) ? 1 : 0;
  switch (random_.below(4)) {
    case 0:
      return connection(index).to_error(side, machines_.now());
    case 1:
      return connection(index).destroy_qp(side, machines_.now());
    case 2:
      return cut();
    default:
      return lose(any_vm());
  }
}

void NativeWorld::disturb(std::size_t index) {
  const std::uint32_t choice = random_.below(43);
  if (choice < 20) {
    change_weather();
  } else if (choice < 35) {
    interrupt();
  } else {
    make_trouble(index);
  }
}

void NativeWorld::calm_down() {
  wire.weather = WireWeather{.delay = microseconds(10)};
}

}  // namespace pvrdma::sim
