// NativeWorld: each VM has a host of its own, and the VMs are native endpoints to one another. All traffic
// between them takes the path roce, as frames on a wire that loses, duplicates, damages and reorders them. A
// VM's traffic to itself is copied in memory. Thread: one.
#pragma once

#include <memory>
#include <vector>

#include "fabric/fabric.h"
#include "sim/wire.h"
#include "sim/world.h"
#include "support/machines.h"
#include "transport/local/local.h"
#include "transport/roce/roce.h"

namespace pvrdma::sim {

struct NativeOptions {
  std::uint64_t seed = 1;
  std::uint32_t vms = 2;
  std::uint32_t connections = 4;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  RoceVersion roce = RoceVersion::kV2;
};

// Members that World borrows.
struct NativeParts {
  explicit NativeParts(const NativeOptions& options);

  struct Host {
    Host(std::uint32_t index, const Clock& clock, Wire& wire);

    transport::Local local;
    fabric::Fabric fabric;
    transport::Roce roce;
  };

  test::Machines machines;
  Wire wire;
  std::vector<std::unique_ptr<Host>> hosts;  // by the index of the VM
};

class NativeWorld final : private NativeParts, public World {
 public:
  explicit NativeWorld(const NativeOptions& options);
  ~NativeWorld() override;

  const Wire::Tally& frames() const { return wire.tally(); }
  // The sum over all hosts.
  std::uint64_t packets_of(std::uint64_t pvrdma::roce::Counters::*counter) const {
    std::uint64_t sum = 0;
    for (const auto& host : hosts) sum += host->roce.packets().*counter;
    return sum;
  }

 private:
  void pass(Duration time) override;
  void disturb(std::size_t index) override;
  void calm_down() override;

  void start(std::uint32_t index);
  void lose(std::uint32_t index);
  void change_weather();
  void interrupt();
  void cut();
  void make_trouble(std::size_t index);
};

}  // namespace pvrdma::sim
