// MotionWorld: a VM's motion between two hosts, with simulated surroundings: two QEMUs, two adapters, the
// store, the connection, and libvirt if it leads. Mishaps happen at chosen calls. Each step checks that the
// VM runs, and is served, on at most one host, and on the destination only if the store says so. If libvirt
// leads, libvirt decides instead of the store, and the VM is served where it runs.
#pragma once

#include <array>
#include <cerrno>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include "motion/destination.h"
#include "motion/source.h"
#include "vmm/fake_ports.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::motion {

enum class Host : std::uint8_t { kSource, kDestination };

enum class Fault : std::uint8_t {
  kFails,             // the call fails; on the connection: it is cut
  kDaemonDies,        // the daemon dies in the call
  kDaemonComesBack,   // like kDaemonDies, but its next process holds its lease and leads no motion
  kAnswerLost,        // the store does what was asked, and the answer is lost
  kStoreAway,         // for a while, for both hosts
  kCutOff,            // this host alone loses the store for a while; its lease ends
  kResumedMeanwhile,  // like kStoreAway, and somebody resumes the VM in the source's QEMU
  kQemuDies,          // at a command
  kQemuRefuses,       // a command
  kLibvirtGivesUp,    // libvirt gives up at one of its own steps: the VM is to stay
  kCancelled,         // when the source reports its progress
  kSomebodyResumes,   // somebody resumes the VM in the source's QEMU, at the first command where it is
                      // possible
};

// `at` counts the calls of the host's daemon to anybody; for a lost answer, its calls to the store; for
// QEMU's faults, the commands to its QEMU.
struct Mishap {
  Fault fault;
  Host host = Host::kSource;
  int at = 0;
};

class MotionWorld {
 public:
  explicit MotionWorld(std::vector<Mishap> mishaps, Leader leader = Leader::kDaemons);

  // Runs the whole motion, until nobody does anything any more.
  void run();

  bool happened() const { return happened_; }  // at least one of the mishaps
  bool committed() const { return store_ == Store::kThere; }
  bool runs(Host host) const { return of(host).qemu_runs && !of(host).qemu_dead; }
  bool serves(Host host) const { return of(host).serves && !of(host).daemon_dead; }
  bool is_lost() const { return lost_; }                     // the adapter came without its state
  bool was_ready() const { return was_ready_; }              // the destination had everything
  const std::string& sentence() const { return sentence_; }  // the source's error; empty: success
  std::string describe() const;

 private:
  struct DaemonDied {};
  enum class Store : std::uint8_t { kNothing, kMoving, kThere, kStays };
  struct Party {
    int calls = 0;
    int store_calls = 0;  // of these calls, those to the store
    int commands = 0;
    int store_away_for = 0;  // the number of calls
    bool daemon_dead = false;
    bool serves = false;
    bool loaded = false;
    bool has_pages = false;
    bool qemu_runs = false;
    bool qemu_dead = false;
    bool seen_waiting = false;  // its daemon has seen QEMU wait for the VM
    bool seen_whole = false;    // its daemon has seen that QEMU gave the whole VM away
    std::string run_state;
    std::string migration;
    vmm::FakePorts ports;
    // The daemon's adapter ends; if libvirt leads, it outlives QEMU and is stopped.
    void lose_qemu() {
      qemu_dead = true;
      serves = false;
    }
  };
  class Side;
  class StoreSide;
  class End;
  class Nothing;

  Party& of(Host host) { return parties_[static_cast<std::size_t>(host)]; }
  const Party& of(Host host) const { return parties_[static_cast<std::size_t>(host)]; }
  // Counts a call. Returns an error if the call is to fail. Throws DaemonDied. The lock must be held.
  Result<void> call(Host host, bool of_store = false);
  Result<void> suffer(Fault fault, Host host, bool of_store);
  Result<void> miss_store(Host host);
  bool has(Fault fault) const;
  void check();
  void die(Host host);
  std::optional<vmm::Json> answer(Host host, const std::string& command, const vmm::Json& arguments);
  std::optional<vmm::Json> migration_of(Host host);
  void be_libvirt();
  bool is_too_early(int step) const;
  bool step_libvirt(int step);
  void keep_here();
  bool is_idle(Host host);
  bool look_at_progress();
  void lead_source();
  void lead_destination();

  const std::vector<Mishap> mishaps_;
  const Leader leader_;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool happened_ = false;
  bool answer_lost_ = false;  // of the current call to the store
  bool was_ready_ = false;
  bool cut_ = false;
  bool lost_ = false;
  bool is_expected_ = false;  // a QEMU has connected to the destination's adapter
  bool libvirt_is_done_ = false;
  int looks_ = 0;  // how often the source reported its progress
  Store store_ = Store::kNothing;
  std::array<Party, 2> parties_;
  std::array<std::deque<std::byte>, 2> on_the_wire_;  // the bytes on the way to each host
  std::string sentence_;
  std::array<std::string, 2> paths_;
  std::array<std::optional<vmm::FakeQemu>, 2> qemus_;
};

}  // namespace pvrdma::motion
