// Machines: N adapters in one thread and under one manual clock, each with its port and a driver over an
// InProcessBus. Which switches they are on is the caller's business: Testbench has one for all, a simulated
// cluster one for each host.
//
// Nothing happens by itself: doorbells and commands run where they are written, but mapped doorbells in the
// next run(), which gives waiting work its turns; advance() moves time from deadline to deadline. The same
// calls give the same result.
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
#include "support/manual_clock.h"
#include "support/rc_endpoint.h"
#include "transport/transport.h"

namespace pvrdma::test {

struct MachineOptions {
  std::uint32_t adapter_count = 2;
  HardwareVersion hardware_version = HardwareVersion::k18;
  std::optional<RoceVersion> roce;  // none: the hardware version's default
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  bool kept = false;  // ServedHost: for another process
  NetworkMtu mtu = kNetworkMtuDefault;
  bool may_reach_natives = false;  // where the segment's rule lets it
  std::optional<verbs::Limits> limits;
  Budgets budgets = Budgets::none();
  verbs::HostAccount* host = nullptr;  // borrowed
  driver::DeviceOptions driver;
  // Called with its index before each of a driver's calls to its adapter, which it may replace.
  std::function<void(std::uint32_t)> before_each_call;
  // For Testbench, of kind local: takes the place of the real one, for example a lossy one around it;
  // borrowed.
  transport::Transport* transport = nullptr;
};

// The configuration of adapter `index` on a test's host.
device::AdapterConfig adapter_config(std::uint32_t index, const MachineOptions& options);

class Machines {
 public:
  // None of them is placed.
  explicit Machines(const MachineOptions& options);
  ~Machines();  // drivers first: nothing made from them is left
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(nodes_.size()); }

  // A new adapter on a switch (borrowed), where none is. remove() takes it away, and its driver.
  void place(std::uint32_t index, fabric::Switch& fabric_switch);
  void remove(std::uint32_t index);
  bool is_placed(std::uint32_t index) const { return nodes_[index].adapter != nullptr; }

  // The driver of an adapter, opened at first use and after forget_device(). device() also binds
  // gid_of(index) at GID index 0.
  driver::Device& open(std::uint32_t index);
  driver::Device& device(std::uint32_t index);
  device::Adapter& adapter(std::uint32_t index) { return *nodes_[index].adapter; }
  fabric::Port& port(std::uint32_t index) { return *nodes_[index].port; }
  InProcessBus& bus(std::uint32_t index) { return *nodes_[index].bus; }

  // What a move does to an adapter, without the way between two hosts: it is saved and destroyed, and another
  // one, loaded from the bytes, goes on with its guest, which must not notice. Its port stays, and its GIDs
  // are nobody's for a moment. Ends the test when it is refused, or is not saved as the same bytes again.
  void replace_adapter(std::uint32_t index);

  // The VM dies: its adapter loses its client at once. Objects made from its driver may still be destroyed
  // (each destroy fails), then forget_device() makes room for the next one.
  void kill(std::uint32_t index) { nodes_[index].bus->kill(); }
  void forget_device(std::uint32_t index);

  Instant now() const { return clock_.now(); }
  ManualClock& clock() { return clock_; }

  // Gives adapters turns until none has more to do and each mapped page was looked at since, at most
  // `turns_max`; false when that was not enough.
  bool run(std::uint32_t turns_max = 1'000'000);

  // Moves time on by `time`, firing each deadline when it is due, and runs.
  void advance(Duration time);

  // Runs and jumps from deadline to deadline until `done` holds or `time` has passed; whether it holds.
  bool run_until(const std::function<bool()>& done, Duration time = std::chrono::seconds(60));

  Instant next_deadline() const;

 private:
  struct Node {
    std::unique_ptr<fabric::Port> port;
    std::unique_ptr<device::Adapter> adapter;  // null: not placed
    std::unique_ptr<driver::Device> device;
    InProcessBus* bus = nullptr;  // owned by device
  };
  void fire_due();

  const MachineOptions options_;
  ManualClock clock_;
  std::vector<Node> nodes_;
};

}  // namespace pvrdma::test
