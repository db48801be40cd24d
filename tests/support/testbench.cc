#include "support/testbench.h"

#include <algorithm>
#include <cstdlib>
#include <string>

#include "base/log.h"
#include "support/must.h"

namespace pvrdma::test {

device::AdapterConfig adapter_config(std::uint32_t index, const TestbenchOptions& options) {
  return {.name = "test-" + std::to_string(index),
          .mac = {{0x02, 0, 0, 0, 0, static_cast<std::uint8_t>(index + 1)}},
          .hardware_version = options.hardware_version,
          .roce = options.roce.value_or(device::default_roce(options.hardware_version)),
          .profile = options.profile,
          .limits = options.limits};
}

Testbench::Testbench(const TestbenchOptions& options)
    : options_(options), switch_(transport::SegmentId{}, transports_, clock_) {
  transports_.use(options.transport != nullptr ? *options.transport : local_);
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options_.adapter_count; ++index) {
    auto node = std::make_unique<Node>();
    const device::AdapterConfig config = adapter_config(index, options_);
    node->port = std::make_unique<fabric::Port>(config.name, switch_);
    node->adapter = must(device::Adapter::create(config, *node->port, clock_));
    node->port->attach(node->adapter->engine());
    nodes_.push_back(std::move(node));
  }
}

Testbench::~Testbench() {
  for (auto& node : nodes_) {
    node->device.reset();
    node->port->detach();
    node->adapter.reset();
  }
}

driver::Device& Testbench::device(std::uint32_t index) {
  Node& node = *nodes_[index];
  if (!node.device) {
    auto bus = std::make_unique<InProcessBus>(*node.adapter);
    node.bus = bus.get();
    node.device = must(driver::Device::open(std::move(bus), options_.driver));
    must(node.device->bind_gid(0, gid_of(index)));
  }
  return *node.device;
}

void Testbench::forget_device(std::uint32_t index) {
  nodes_[index]->device.reset();
  nodes_[index]->bus = nullptr;
}

bool Testbench::run(std::uint32_t turns_max) {
  for (std::uint32_t turn = 0; turn < turns_max; ++turn) {
    bool more = false;
    for (auto& node : nodes_) more = node->adapter->run(now()) || more;
    if (!more) return true;
  }
  return false;
}

Instant Testbench::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& node : nodes_) next = std::min(next, node->adapter->next_deadline());
  return next;
}

void Testbench::fire_due() {
  for (auto& node : nodes_) {
    if (now() >= node->adapter->next_deadline()) node->adapter->on_time(now());
  }
}

void Testbench::advance(Duration time) {
  const Instant end = now() + time;
  run();
  while (next_deadline() <= end) {
    clock_.set(std::max(now(), next_deadline()));
    fire_due();
    run();
  }
  clock_.set(end);
}

bool Testbench::run_until(const std::function<bool()>& done, Duration time) {
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
