// NativeWorld: VMs on a host each, which are native endpoints to one another: all between them goes by the
// path roce, as frames on a wire that loses, doubles, damages and reorders; a VM speaks to itself by memory
// copy. Thread: one.
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

// What World borrows.
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
  std::vector<std::unique_ptr<Host>> hosts;  // of the VM with the same index
};

class NativeWorld final : private NativeParts, public World {
 public:
  explicit NativeWorld(const NativeOptions& options);
  ~NativeWorld() override;

  const Wire::Tally& frames() const { return wire.tally(); }
  // Of all hosts together.
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
