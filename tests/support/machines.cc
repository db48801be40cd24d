#include "support/machines.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "state/reader.h"
#include "state/writer.h"
#include "support/must.h"

namespace pvrdma::test {

namespace {

std::vector<std::byte> save(const device::Adapter& adapter, Instant now) {
  state::Writer writer;
  adapter.save(writer, std::nullopt, now);
  return writer.finish();
}

void change(device::Adapter& adapter, vfio_user::MigrationState state) {
  PVRDMA_CHECK(adapter.set_migration_state(state).error == 0, "the adapter may be stopped and go on");
}

}  // namespace

device::AdapterConfig adapter_config(std::uint32_t index, const MachineOptions& options) {
  return {.name = "test-" + std::to_string(index),
          .mac = {{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(index + 1)}},
          .hardware_version = options.hardware_version,
          .roce = options.roce.value_or(default_roce(options.hardware_version)),
          .profile = options.profile,
          .doorbells = options.doorbells,
          .mtu = options.mtu,
          .limits = options.limits,
          .budgets = options.budgets,
          .host = options.host};
}

Machines::Machines(const MachineOptions& options) : options_(options), nodes_(options.adapter_count) {
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
}

Machines::~Machines() {
  for (std::uint32_t index = 0; index < count(); ++index) remove(index);
}

void Machines::place(std::uint32_t index, fabric::Switch& fabric_switch) {
  PVRDMA_CHECK(!is_placed(index), "an adapter is on one switch at a time");
  make(index, fabric_switch, std::nullopt);
}

void Machines::make(std::uint32_t index, fabric::Switch& fabric_switch,
                    const std::optional<fabric::Port::Predecessor>& predecessor) {
  Node& node = nodes_[index];
  const device::AdapterConfig config = adapter_config(index, options_);
  node.port = std::make_unique<fabric::Port>(
      config.name, fabric::PortIdentity{.mac = config.mac, .may_reach_natives = options_.may_reach_natives},
      fabric_switch);
  if (predecessor) node.port->follow(*predecessor);
  node.adapter = must(device::Adapter::create(config, *node.port, clock_));
  node.port->attach(node.adapter->engine());
}

void Machines::remove(std::uint32_t index) {
  if (!is_placed(index)) return;
  forget_device(index);
  nodes_[index].port->detach();
  nodes_[index].adapter.reset();
  nodes_[index].port.reset();
}

driver::Device& Machines::open(std::uint32_t index) {
  Node& node = nodes_[index];
  if (!node.device) {
    auto bus = std::make_unique<InProcessBus>(*node.adapter);
    node.bus = bus.get();
    if (options_.before_each_call) bus->before_each_call([this, index] { options_.before_each_call(index); });
    node.device = must(driver::Device::open(std::move(bus), options_.driver));
  }
  return *node.device;
}

driver::Device& Machines::device(std::uint32_t index) {
  const bool opened = nodes_[index].device == nullptr;
  driver::Device& device = open(index);
  if (opened) must(device.bind_gid(0, gid_of(index)));
  return device;
}

void Machines::replace_adapter(std::uint32_t index) {
  Node& node = nodes_[index];
  const std::vector<std::byte> bytes = save(*node.adapter, now());
  node.bus->leave();
  node.port->detach();
  node.adapter.reset();
  node.adapter = must(device::Adapter::create(adapter_config(index, options_), *node.port, clock_));
  node.port->attach(node.adapter->engine());
  node.bus->join(*node.adapter);
  load(node, bytes);
  node.adapter->resume();
}

void Machines::load(Node& node, std::span<const std::byte> bytes) {
  state::Reader reader(bytes);
  const device::PciState pci = must(node.adapter->load(reader, now()));
  PVRDMA_CHECK(pci == node.adapter->pci_state(std::nullopt), "the VMM has restored the PCI function");
  PVRDMA_CHECK(std::ranges::equal(save(*node.adapter, now()), bytes),
               "a loaded adapter is the one that was saved");
}

void Machines::take_away(std::uint32_t index) {
  Node& node = nodes_[index];
  change(*node.adapter, vfio_user::MigrationState::kStop);
  node.away = save(*node.adapter, now());
  node.bus->leave();
  node.port->detach();
  node.adapter.reset();
  node.port.reset();
}

void Machines::bring_back(std::uint32_t index, fabric::Switch& fabric_switch) {
  Node& node = nodes_[index];
  place(index, fabric_switch);
  node.bus->join(*node.adapter);
  change(*node.adapter, vfio_user::MigrationState::kStop);
  load(node, std::exchange(node.away, {}));
  change(*node.adapter, vfio_user::MigrationState::kRunning);
}

void Machines::begin_move(std::uint32_t index, fabric::Switch& fabric_switch) {
  Node& node = nodes_[index];
  const std::vector<std::byte> bytes = save(*node.adapter, now());
  node.adapter->stop();
  node.bus->leave();
  node.old_port = std::move(node.port);
  node.old_adapter = std::move(node.adapter);
  make(index, fabric_switch, node.old_port->as_predecessor());
  node.bus->join(*node.adapter);
  load(node, bytes);
  node.adapter->stop();
}

void Machines::hand_over(std::uint32_t index) {
  Node& node = nodes_[index];
  node.old_port->hand_over(node.port->as_holder());
  node.old_port->detach();
  node.old_adapter.reset();
  node.old_port.reset();
}

void Machines::turn_away(std::uint32_t index) {
  Node& node = nodes_[index];
  node.bus->leave();
  node.port->detach();
  node.adapter = std::move(node.old_adapter);
  node.port = std::move(node.old_port);
  node.bus->go_back(*node.adapter);
}

void Machines::settle(std::uint32_t index) {
  Node& node = nodes_[index];
  node.port->end_following();
  node.adapter->go_on();
}

void Machines::forget_device(std::uint32_t index) {
  nodes_[index].device.reset();
  nodes_[index].bus = nullptr;
}

bool Machines::run(std::uint32_t turns_max) {
  std::size_t quiet = 0;
  for (std::uint32_t turn = 0; turn < turns_max; ++turn) {
    bool more = false;
    bool polls = false;
    for (Node& node : nodes_) {
      if (!node.adapter) continue;
      more = node.adapter->run(now()) || more;
      polls = node.adapter->polls() || polls;
    }
    quiet = more ? 0 : quiet + 1;
    if (quiet > (polls ? device::DoorbellPoller::kColdPagesPerLook : 0)) return true;
  }
  return false;
}

Instant Machines::next_deadline() const {
  Instant next = Instant::never();
  for (const Node& node : nodes_) {
    if (node.adapter) next = std::min(next, node.adapter->next_deadline());
  }
  return next;
}

void Machines::fire_due() {
  for (Node& node : nodes_) {
    if (node.adapter && now() >= node.adapter->next_deadline()) node.adapter->on_time(now());
  }
}

void Machines::advance(Duration time) {
  const Instant end = now() + time;
  run();
  while (next_deadline() <= end) {
    clock_.set(std::max(now(), next_deadline()));
    fire_due();
    run();
  }
  clock_.set(end);
}

bool Machines::run_until(const std::function<bool()>& done, Duration time) {
  const Instant end = now() + time;
  run();
  while (!done()) {
    const Instant next = next_deadline();
    if (next > end) {
      clock_.set(end);
      return done();
    }
    clock_.set(std::max(now(), next));
    fire_due();
    run();
  }
  return true;
}

}  // namespace pvrdma::test
