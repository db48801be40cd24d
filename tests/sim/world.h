// World: VMs, connections and datagrams between them, and chance. step() does one random thing; every
// completion is checked as it is taken. All that happens follows from the seed.
//
// What lies between the VMs, how time passes there and what may go wrong is a derived world's: one host with
// a network of many kinds of weather, or a cluster.
//
// Violation says what went wrong. Thread: one.
#pragma once

#include <memory>
#include <vector>

#include "sim/connection.h"
#include "sim/datagrams.h"
#include "sim/random.h"
#include "support/machines.h"

namespace pvrdma::sim {

class World {
 public:
  virtual ~World();
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
    std::uint64_t adapters_replaced = 0;
    std::uint64_t pages_audited = 0;       // that changed while the log of written pages was on
    std::uint64_t breaks = 0;              // of paths or lanes
    std::uint64_t hidden_doorbells = 0;    // found by looking at rings
    std::uint64_t events_maybe_armed = 0;  // raised without an ARM that was seen
  };
  const Tally& tally() const { return tally_; }

  // A third of the worlds has no faulty requests, and a quarter has bad receives.
  static Mix mix_of(std::uint64_t seed);

 protected:
  struct VmState {
    Vm vm;  // its device is null while the VM is off
    std::unique_ptr<driver::Context> user;
    std::unique_ptr<Datagrams> datagrams;
  };

  // `machines` is borrowed: each has a VM, all of them off.
  World(std::uint64_t seed, std::uint32_t connections, const Mix& mix, test::Machines& machines);
  // Derived destructors call it: nothing made from the machines' drivers is left.
  void leave();

  // --- What derived worlds decide. ---

  virtual void pass(Duration time) = 0;
  // One random thing that may go wrong; `index` is of a connection.
  virtual void disturb(std::size_t index) = 0;
  // Nothing goes wrong any more, and everybody reaches everybody.
  virtual void calm_down() = 0;
  // Of a connection to be made.
  virtual test::ConnectOptions connect_options();
  // Until then guests do nothing while time passes.
  virtual Instant guests_rest_until() const { return Instant::never(); }
  // The adapter of a VM that is on gets a successor; its GIDs are nobody's for a moment.
  virtual void replace(std::uint32_t index);
  // One was made.
  virtual void connected(Connection& /*connection*/) {}

  // --- What they are made from. ---

  // The VM of a machine whose driver is open and whose GID is bound starts to work.
  void boot(std::uint32_t index, const abi::Gid& gid);
  // The VM dies, or its driver lets go of the adapter without a word to its objects.
  void stop(std::uint32_t index);
  // It has another GID, which is bound.
  void readdress(std::uint32_t index, const abi::Gid& gid);
  // Checks what a stopped VM leaves behind; it is off afterwards.
  void bury(std::uint32_t index);
  // In the places that are empty, while there is somebody to connect.
  void connect_all();
  void connect(std::size_t index);
  void finish(std::size_t index);
  void poll_all();
  bool is_on(std::uint32_t index) const { return vms_[index].vm.device != nullptr; }
  std::uint32_t any_vm() { return random_.below(machines_.count()); }
  // Calls `visit(connection)` for all there are.
  template <typename Visit>
  void each_connection(Visit visit) {
    for (const auto& connection : connections_) {
      if (connection) visit(*connection);
    }
  }
  Connection& connection(std::size_t index) { return *connections_[index]; }

  Random random_;
  Tally tally_;
  test::Machines& machines_;
  std::vector<VmState> vms_;

 private:
  void work(Connection& connection);
  void send_datagram();
  void settle(Connection& connection);
  // For some steps the log of written pages is on, and must have all that changes.
  void audit_log();
  void note(std::uint64_t value) { fingerprint_ = (fingerprint_ ^ value) * 0x100'0000'01b3; }

  static constexpr std::uint32_t kReplacementsPerMille = 30;  // in a step
  static constexpr std::uint32_t kAuditsPerMille = 5;

  const Mix mix_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t connections_made_ = 0;
  std::uint64_t fingerprint_ = 0xcbf2'9ce4'8422'2325;
};

}  // namespace pvrdma::sim
