// World: VMs with connections and datagrams between them. step() does one random thing, and every completion
// is checked when it is taken. Everything that happens follows from the seed.
//
// Derived worlds decide what is between the VMs, how time passes there and what may go wrong: one host with a
// network of many kinds of weather, or a cluster.
//
// A Violation is thrown if something is wrong. Thread: one.
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
  // Makes good weather, waits until everything outstanding has completed, compares all memory, and destroys
  // everything.
  void wind_up();

  // A hash of everything that was observed. Two worlds with the same seed have the same one.
  std::uint64_t fingerprint() const { return fingerprint_; }

  struct Tally {
    std::uint64_t completions = 0;
    std::uint64_t connections_finished = 0;
    std::uint64_t vms_lost = 0;
    std::uint64_t datagrams_received = 0;
    std::uint64_t adapters_replaced = 0;
    std::uint64_t pages_audited = 0;       // pages that changed while the log of written pages was on
    std::uint64_t breaks = 0;              // of paths or lanes
    std::uint64_t hidden_doorbells = 0;    // doorbells that the adapter found by looking at rings
    std::uint64_t events_maybe_armed = 0;  // events raised without an observed ARM
  };
  const Tally& tally() const { return tally_; }

  // A third of the worlds have no faulty requests, and a quarter have bad receives.
  static Mix mix_of(std::uint64_t seed);

 protected:
  struct VmState {
    Vm vm;  // `device` is null while the VM is off
    std::unique_ptr<driver::Context> user;
    std::unique_ptr<Datagrams> datagrams;
  };

  // `machines` is borrowed. Each machine has a VM, which is off.
  World(std::uint64_t seed, std::uint32_t connections, const Mix& mix, test::Machines& machines);
  // Destroys everything made from the machines' drivers. Destructors of derived worlds call it.
  void leave();

  // --- Derived worlds decide this. ---

  virtual void pass(Duration time) = 0;
  // Makes one random thing go wrong. `index` is a connection's.
  virtual void disturb(std::size_t index) = 0;
  // Nothing goes wrong any more, and every VM reaches every other.
  virtual void calm_down() = 0;
  // The options of a new connection.
  virtual test::ConnectOptions connect_options();
  // Until then, guests do nothing while time passes.
  virtual Instant guests_rest_until() const { return Instant::never(); }
  // Replaces the adapter of a VM that is on. For a moment no adapter holds its GIDs.
  virtual void replace(std::uint32_t index);
  // The adapter's shard is about to be asked to do something, but not by the guest.
  virtual void asked(std::uint32_t /*index*/) {}
  // Lets each adapter have a turn now, in worlds where pass() may give it none. Only then does it flush all
  // work requests of a QP that fails at once.
  virtual void let_all_run() {}
  // How long a connection may need for its requests when nothing goes wrong any more.
  virtual Duration patience() const { return std::chrono::seconds(1); }
  // A connection was made.
  virtual void connected(Connection& /*connection*/) {}

  // --- Helpers of derived worlds. ---

  // Starts the VM of a machine whose driver is open and whose GID is bound.
  void boot(std::uint32_t index, const abi::Gid& gid);
  // The VM dies, or its driver closes the adapter without destroying its objects.
  void stop(std::uint32_t index);
  // The VM has another GID, which is bound.
  void readdress(std::uint32_t index, const abi::Gid& gid);
  // Checks the remains of a stopped VM, which is off afterwards.
  void bury(std::uint32_t index);
  // Makes the connections that are missing, if two VMs are on.
  void connect_all();
  void connect(std::size_t index);
  void finish(std::size_t index);
  void poll_all();
  bool is_on(std::uint32_t index) const { return vms_[index].vm.device != nullptr; }
  std::uint32_t any_vm() { return random_.below(machines_.count()); }
  // Calls `visit(connection)` for each connection.
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
  // Turns the log of written pages on for some rounds, and checks that it has every page that changes.
  void audit_log();
  void note(std::uint64_t value) { fingerprint_ = (fingerprint_ ^ value) * 0x100'0000'01b3; }

  static constexpr std::uint32_t kReplacementsPerMille = 30;  // per step
  static constexpr std::uint32_t kAuditsPerMille = 5;

  const Mix mix_;
  std::vector<std::unique_ptr<Connection>> connections_;
  std::uint64_t connections_made_ = 0;
  std::uint64_t fingerprint_ = 0xcbf2'9ce4'8422'2325;
};

}  // namespace pvrdma::sim
