// Testbench: a whole host in one thread and under one manual clock: a switch, the local transport, N
// adapters, and for each adapter a driver over an InProcessBus. What a seeded simulation and the benches are
// built on.
//
// Nothing happens by itself: doorbells and commands run where they are written, run() gives waiting work its
// turns, and advance() moves time from deadline to deadline. The same calls give the same result.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "base/time.h"
#include "device/adapter.h"
#include "driver/driver.h"
#include "fabric/port.h"
#include "fabric/switch.h"
#include "support/in_process_bus.h"
#include "support/rc_endpoint.h"
#include "transport/local/local.h"

namespace pvrdma::test {

class ManualClock final : public Clock {
 public:
  Instant now() const override { return now_; }
  void set(Instant now) { now_ = now; }

 private:
  Instant now_{std::chrono::seconds(1)};
};

struct TestbenchOptions {
  std::uint32_t adapter_count = 2;
  device::HardwareVersion hardware_version = device::HardwareVersion::k18;
  std::optional<verbs::RoceVersion> roce;  // none: the hardware version's default
  device::Profile profile = device::Profile::kOpen;
  std::optional<verbs::Limits> limits;
  driver::DeviceOptions driver;
  // Of kind local: takes the place of the real one, for example a lossy one around it; borrowed.
  transport::Transport* transport = nullptr;
};

// The configuration of adapter `index` on a test's host.
device::AdapterConfig adapter_config(std::uint32_t index, const TestbenchOptions& options);

class Testbench {
 public:
  explicit Testbench(const TestbenchOptions& options = {});
  ~Testbench();  // drivers first: nothing made from them is left
  Testbench(const Testbench&) = delete;
  Testbench& operator=(const Testbench&) = delete;

  // The driver of an adapter, with gid_of(index) bound at GID index 0. Opened at first use and after
  // power_off().
  driver::Device& device(std::uint32_t index);
  device::Adapter& adapter(std::uint32_t index) { return *nodes_[index]->adapter; }
  fabric::Port& port(std::uint32_t index) { return *nodes_[index]->port; }
  InProcessBus& bus(std::uint32_t index) { return *nodes_[index]->bus; }

  // The VM dies: its adapter loses its client at once. Objects made from its driver may still be destroyed
  // (each destroy fails), then forget_device() makes room for the next one.
  void kill(std::uint32_t index) { nodes_[index]->bus->kill(); }
  void forget_device(std::uint32_t index);

  Instant now() const { return clock_.now(); }
  ManualClock& clock() { return clock_; }

  // Gives adapters turns until none has more to do, at most `turns_max`; false when that was not enough.
  bool run(std::uint32_t turns_max = 1'000'000);

  // Moves time on by `time`, firing each deadline when it is due, and runs.
  void advance(Duration time);

  // Runs and jumps from deadline to deadline until `done` holds or `time` has passed; whether it holds.
  bool run_until(const std::function<bool()>& done, Duration time = std::chrono::seconds(60));

 private:
  struct Node {
    std::unique_ptr<fabric::Port> port;
    std::unique_ptr<device::Adapter> adapter;
    std::unique_ptr<driver::Device> device;
    InProcessBus* bus = nullptr;  // owned by device
  };
  Instant next_deadline() const;
  void fire_due();

  const TestbenchOptions options_;
  ManualClock clock_;
  transport::Local local_;
  fabric::Transports transports_;
  fabric::Switch switch_;
  std::vector<std::unique_ptr<Node>> nodes_;
};

}  // namespace pvrdma::test
