#include "conformance/world.h"

#include <algorithm>
#include <cstdlib>
#include <stdexcept>
#include <utility>

#include "base/log.h"
#include "support/must.h"

namespace pvrdma::conformance {
namespace {

using test::must;

// How long a turn with work takes, so that time always passes.
constexpr Duration kWorkTakes = std::chrono::microseconds(1);
// How long a turn waits for the kernel.
constexpr Duration kStep = std::chrono::milliseconds(1);

}  // namespace

World::World(const PathUnderTest& path, std::uint32_t adapters, const driver::DeviceOptions& options)
    : path_(path),
      options_(options),
      nics_(29, clock_),
      loop_(must(shard::Loop::create({}, clock_))),
      ethernet_(23, path.weather) {
  loop_->add(ethernet_);
  loop_->add(nics_);
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  const std::uint32_t hosts = path_.can.is_apart() ? adapters : 1;
  if (path_.can.between_shards) {
    rings_ = must(transport::siblings::HostRings::create(hosts));
    shards_gids_.set_tell(
        [this](transport::ShardNumber from, transport::SegmentId segment, fabric::HostGids::PortNumber port) {
          for (const auto& host : hosts_) host->fabric->on_works_again(from, segment, port, now());
        });
  }
  for (std::uint32_t i = 0; i < hosts; ++i) add_host(i);
  for (const auto& host : hosts_) host->path->meet(hosts);
  for (std::uint32_t i = 0; i < adapters; ++i) add_adapter(i);
  publish();
  const bool joined = wait([&] {
    for (std::uint32_t from = 0; from < hosts; ++from) {
      for (std::uint32_t to = 0; to < hosts; ++to) {
        if (!path_.can.between_hosts || path_.can.between_strangers) continue;
        if (from != to && !hosts_[from]->transport->is_up(host_id(to))) return false;
      }
    }
    return true;
  });
  if (!joined) throw std::runtime_error("the hosts do not reach each other");
}

World::~World() {
  for (const auto& adapter : adapters_) {
    adapter->process.reset();
    adapter->driver.reset();
    adapter->running.reset();
    adapter->port->detach();
    adapter->device.reset();
    adapter->port.reset();
  }
  for (const auto& host : hosts_) end_transport(*host);
  loop_->remove(nics_);
  loop_->remove(ethernet_);
}

void World::add_host(std::uint32_t index) {
  auto host = std::make_unique<Host>();
  host->fabric = path_.can.between_shards
                     ? std::make_unique<fabric::Fabric>(
                           clock_, shards_gids_, transport::ShardNumber(static_cast<std::uint16_t>(index)))
                     : std::make_unique<fabric::Fabric>(clock_);
  host->path = path_.make({*loop_, clock_, *host->fabric, ethernet_, nics_, book_, rings_, index});
  host->transport = &host->path->transport();
  if (path_.faulty) {
    host->fault = std::make_unique<transport::Fault>(*host->transport, *host->fabric,
                                                     transport::FaultOptions{.seed = 11 + index});
    host->fault->configure(ordinary_faults());
    host->transport = host->fault.get();
    loop_->add(*host->fault);
  }
  host->fabric->use(*host->transport);
  hosts_.push_back(std::move(host));
}

void World::add_adapter(std::uint32_t index) {
  auto adapter = std::make_unique<Adapter>();
  adapter->host = hosts_[path_.can.is_apart() ? index : 0].get();
  const device::AdapterConfig config = test::adapter_config(index, {.doorbells = path_.doorbells});
  adapter->port = std::make_unique<fabric::Port>(
      config.name, fabric::PortIdentity{.mac = config.mac, .may_reach_natives = true},
      adapter->host->fabric->segment(kSegment));
  adapter->device = must(device::Adapter::create(config, *adapter->port, clock_));
  adapter->port->attach(adapter->device->engine());
  adapter->running = std::make_unique<test::RunningAdapter>(*loop_, *adapter->device);
  adapters_.push_back(std::move(adapter));
}

driver::Device& World::device(std::uint32_t index) {
  Adapter& adapter = *adapters_[index];
  if (!adapter.driver) {
    auto bus = std::make_unique<test::InProcessBus>(*adapter.device);
    adapter.bus = bus.get();
    adapter.driver = must(driver::Device::open(std::move(bus), options_));
    bind(index, 0, test::gid_of(index));
  }
  return *adapter.driver;
}

driver::Context& World::context(std::uint32_t index) {
  driver::Device& driver = device(index);
  if (path_.doorbells == DoorbellMode::kTrapped) return driver.kernel();
  Adapter& adapter = *adapters_[index];
  if (!adapter.process) adapter.process = must(driver::Context::create_user(driver));
  return *adapter.process;
}

void World::bind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid) {
  must(adapters_[index]->driver->bind_gid(gid_index, gid));
  publish();
}

void World::unbind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid) {
  must(adapters_[index]->driver->unbind_gid(gid_index, gid));
  publish();
}

void World::remove(std::uint32_t index) {
  Adapter& adapter = *adapters_[index];
  adapter.bus->kill();
  adapter.running.reset();
  adapter.port->detach();
  for (const auto& host : hosts_) {
    if (host->fault) host->fault->forget(adapter.device->engine());
  }
  adapter.device.reset();
}

void World::drop_transport(std::uint32_t index) {
  end_transport(*adapters_[index]->host);
}

void World::end_transport(Host& host) {
  if (host.transport == nullptr) return;
  host.fabric->drop(host.transport->kind());
  host.transport = nullptr;
  if (host.fault) loop_->remove(*host.fault);
  host.fault.reset();
  host.path.reset();
}

void World::publish() {
  if (!path_.can.between_hosts || path_.can.between_strangers) return;
  for (const auto& host : hosts_) {
    fabric::View view;
    for (std::uint32_t i = 0; i < hosts_.size(); ++i) {
      if (hosts_[i] == host || hosts_[i]->transport == nullptr) continue;
      view.hosts.push_back({.id = host_id(i),
                            .name = "host",
                            .path = hosts_[i]->transport->kind(),
                            .reason = "test",
                            .hca_switches = {kSegment.dvs}});
      for (const auto& held : hosts_[i]->fabric->segment(kSegment).directory())
        view.gids.push_back({.segment = kSegment, .gid = held.gid, .host = host_id(i)});
    }
    host->fabric->set_view(std::move(view));
  }
}

void World::set_faults(const transport::FaultSettings& settings) {
  for (const auto& host : hosts_) {
    if (host->fault) host->fault->configure(settings);
  }
}

transport::FaultCounters World::faults() const {
  transport::FaultCounters sum;
  for (const auto& host : hosts_) {
    if (!host->fault) continue;
    const transport::FaultCounters& one = host->fault->faults();
    sum.dropped += one.dropped;
    sum.duplicated += one.duplicated;
    sum.delayed += one.delayed;
    sum.reordered += one.reordered;
    sum.corrupted += one.corrupted;
    sum.refused += one.refused;
    sum.bare_paths += one.bare_paths;
    sum.no_copy += one.no_copy;
    sum.late_lost += one.late_lost;
    sum.forgotten += one.forgotten;
  }
  return sum;
}

void World::block() {
  if (path_.faulty) return set_faults({.refuse_ppm = 1'000'000});
  for (const auto& host : hosts_) host->path->block();
}

void World::unblock() {
  if (path_.faulty) return set_faults({});
  for (const auto& host : hosts_) host->path->unblock();
}

int World::cut() {
  int count = 0;
  for (const auto& host : hosts_) count += host->path->cut();
  return count;
}

bool World::go_on(Instant until) {
  if (loop_->turn(Duration{0})) {
    quiet_turns_ = 0;
    clock_.set(now() + kWorkTakes);
    return true;
  }
  if (may_be_rung()) {
    ++quiet_turns_;
    return true;
  }
  if (path_.can.waits_in_kernel) {
    if (!loop_->turn(kStep)) clock_.set(now() + kStep);
    return true;
  }
  const Instant next = next_deadline();
  if (next == Instant::never()) return false;
  clock_.set(std::min(until, std::max(now(), next)));
  return true;
}

bool World::may_be_rung() const {
  return quiet_turns_ < device::DoorbellPoller::kColdPagesPerLook &&
         std::ranges::any_of(adapters_,
                             [](const auto& each) { return each->running && each->running->polls(); });
}

void World::pass(Duration time) {
  const Instant end = now() + time;
  quiet_turns_ = 0;
  while (now() < end) {
    if (go_on(end)) continue;
    clock_.set(end);
  }
}

Instant World::next_deadline() const {
  Instant next = std::min(ethernet_.next_deadline(), nics_.next_deadline());
  for (const auto& adapter : adapters_) {
    if (adapter->running) next = std::min(next, adapter->running->next_deadline());
  }
  for (const auto& host : hosts_) {
    if (host->fault) next = std::min(next, host->fault->next_deadline());
    if (host->path) next = std::min(next, host->path->next_deadline());
  }
  return next;
}

}  // namespace pvrdma::conformance
