// Machines: N adapters in one thread and under one manual clock, each with its port and a driver over an
// InProcessBus. The caller chooses their switches: Testbench has one switch for all, a simulated cluster has
// one for each host.
//
// Nothing happens by itself. Commands and trapped doorbells run when they are written, mapped doorbells in
// the next run(), which also runs waiting work. advance() moves time from deadline to deadline. The same
// calls give the same result.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
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
  std::optional<RoceVersion> roce;  // nullopt: the hardware version's default
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  bool kept = false;         // ServedHost keeps it for another process
  std::uint32_t shards = 1;  // of ServedHost: adapter i is on shard i modulo `shards`
  bool ward = false;         // the last of them is the ward
  NetworkMtu mtu = kNetworkMtuDefault;
  bool may_reach_natives = false;  // if the segment's rule allows it
  std::optional<verbs::Limits> limits;
  Budgets budgets = Budgets::none();
  verbs::HostAccount* host = nullptr;  // borrowed
  driver::DeviceOptions driver;
  // Called with the adapter's index before each of a driver's calls to it. It may replace the adapter.
  std::function<void(std::uint32_t)> before_each_call;
  // Testbench uses this transport of kind local instead of the real one, for example a lossy one. Borrowed.
  transport::Transport* transport = nullptr;
};

// The configuration of adapter `index` on a test's host.
device::AdapterConfig adapter_config(std::uint32_t index, const MachineOptions& options);

class Machines {
 public:
  // No adapter is placed at first.
  explicit Machines(const MachineOptions& options);
  ~Machines();  // destroys the drivers first; nothing made from them may be left
  Machines(const Machines&) = delete;
  Machines& operator=(const Machines&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(nodes_.size()); }

  // place() makes an adapter on a switch (borrowed). The index must have no adapter. remove() removes adapter
  // and driver.
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

  // Does to an adapter what a move does, on one host. The adapter is saved and destroyed, and another one is
  // loaded from the bytes and continues with the guest, which must not notice. The port stays; for a moment
  // no adapter holds its GIDs. Ends the test if the load is refused, or if the new adapter is not saved as
  // the same bytes.
  void replace_adapter(std::uint32_t index);

  // A move to another switch, in two halves. take_away() stops the adapter, saves it, and destroys it with
  // its port, so nobody holds its GIDs. bring_back() makes another one on `fabric_switch` (borrowed), loads
  // the saved bytes, and lets it run. In between, nobody may call the index's driver. Both end the test as
  // replace_adapter() does.
  void take_away(std::uint32_t index);
  void bring_back(std::uint32_t index, fabric::Switch& fabric_switch);

  // A move to the switch of another shard of the host (borrowed), as adapters::ShardPlacement makes it. From
  // begin_move() on there are two adapters, both stopped. adapter() is the new one, and the host knows only
  // the old one's port. After hand_over() there is only the new one, which has the GIDs. After turn_away()
  // there is only the old one. settle() lets that one go on. Until then nobody may call the index's driver.
  // begin_move() ends the test as replace_adapter() does.
  void begin_move(std::uint32_t index, fabric::Switch& fabric_switch);
  void hand_over(std::uint32_t index);
  void turn_away(std::uint32_t index);
  void settle(std::uint32_t index);

  // The VM dies: its adapter loses its client at once. Objects made from its driver may still be destroyed
  // (each destroy command fails). Then forget_device() makes room for the next driver.
  void kill(std::uint32_t index) { nodes_[index].bus->kill(); }
  void forget_device(std::uint32_t index);

  Instant now() const { return clock_.now(); }
  ManualClock& clock() { return clock_; }

  // Runs adapters until none has more to do and each mapped page was polled since. False: `turns_max` turns
  // were not enough.
  bool run(std::uint32_t turns_max = 1'000'000);

  // Advances time by `time`, fires each deadline when it is due, and runs the adapters.
  void advance(Duration time);

  // Runs, and advances from deadline to deadline, until `done` holds or `time` has passed. Returns whether it
  // holds.
  bool run_until(const std::function<bool()>& done, Duration time = std::chrono::seconds(60));

  Instant next_deadline() const;

 private:
  struct Node {
    std::unique_ptr<fabric::Port> port;
    std::unique_ptr<device::Adapter> adapter;  // null: not placed
    std::unique_ptr<driver::Device> device;
    InProcessBus* bus = nullptr;                   // owned by device
    std::vector<std::byte> away;                   // the adapter, between take_away() and bring_back()
    std::unique_ptr<fabric::Port> old_port;        // during a move
    std::unique_ptr<device::Adapter> old_adapter;  // during a move
  };
  void make(std::uint32_t index, fabric::Switch& fabric_switch,
            const std::optional<fabric::Port::Predecessor>& predecessor);
  void load(Node& node, std::span<const std::byte> bytes);
  void fire_due();

  const MachineOptions options_;
  ManualClock clock_;
  std::vector<Node> nodes_;
};

}  // namespace pvrdma::test
