// OneHostWorld: all VMs on one host, whose local path is a network that loses, repeats, delays and reorders
// messages. Thread: one.
#pragma once

#include "sim/network.h"
#include "sim/world.h"
#include "support/testbench.h"

namespace pvrdma::sim {

struct OneHostOptions {
  std::uint64_t seed = 1;
  std::uint32_t vms = 2;
  std::uint32_t connections = 4;
  HardwareVersion hardware_version = HardwareVersion::k18;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
};

// Members that World borrows.
struct OneHost {
  explicit OneHost(const OneHostOptions& options);

  Network network;
  test::Testbench bench;
};

class OneHostWorld final : private OneHost, public World {
 public:
  explicit OneHostWorld(const OneHostOptions& options);
  ~OneHostWorld() override;

  const Network& lossy_network() const { return network; }

 private:
  void pass(Duration time) override;
  void disturb(std::size_t index) override;
  void calm_down() override;
  void replace(std::uint32_t index) override;

  void start(std::uint32_t index);
  void lose(std::uint32_t index);
  void tell_ready();
  void change_weather();
  void break_path();
  void make_trouble(std::size_t index);
};

}  // namespace pvrdma::sim
