// World: a few VMs, connections and datagrams between them, a network, and chance. step() does one random
// thing; every completion is checked as it is taken. All that happens follows from the seed.
//
// Violation says what went wrong. Thread: one.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "sim/connection.h"
#include "sim/datagrams.h"
#include "sim/network.h"
#include "sim/random.h"
#include "support/testbench.h"

namespace pvrdma::sim {

struct WorldOptions {
  std::uint64_t seed = 1;
  std::uint32_t vms = 2;
  std::uint32_t connections = 4;
  device::HardwareVersion hardware_version = device::HardwareVersion::k18;
};

class World {
 public:
  explicit World(const WorldOptions& options);
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  void step();
  // Good weather, everything outstanding finishes, every memory is compared, everything is destroyed.
  void wind_up();

  // Changes with everything that was seen: two worlds of one seed have the same.
  std::uint64_t fingerprint() const { return fingerprint_; }

  struct Tally {
    std::uint64_t completions = 0;
    std::uint64_t connections_finished = 0;
    std::uint64_t vms_lost = 0;
    std::uint64_t datagrams_received = 0;
    std::uint64_t breaks = 0;
  };
  const Tally& tally() const { return tally_; }
  const Network& network() const { return network_; }
  const verbs::Counters& counters(std::uint32_t vm) { return bench_.adapter(vm).engine().counters(); }

 private:
  struct VmState {
    Vm vm;
    std::unique_ptr<driver::Context> user;
    std::unique_ptr<Datagrams> datagrams;
  };

  void boot(std::uint32_t index);
  void lose(std::uint32_t index);
  void connect(std::size_t index);
  void finish(std::size_t index);
  void pass(Duration time);
  void drain(Connection& connection);
  void poll_all();
  void change_weather();
  void make_trouble(std::size_t index);
  void break_path();
  void tell_ready();
  void work(Connection& connection);
  void note(std::uint64_t value) { fingerprint_ = (fingerprint_ ^ value) * 0x100'0000'01b3; }

  Random random_;
  Mix mix_;
  Network network_;
  test::Testbench bench_;
  std::vector<VmState> vms_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t connections_made_ = 0;
  std::uint64_t fingerprint_ = 0xcbf2'9ce4'8422'2325;
  Tally tally_;
};

}  // namespace pvrdma::sim
