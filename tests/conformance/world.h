// World: hosts with whole adapters, all in one thread, joined by the path under test: a fabric for each host,
// the user-space driver over an InProcessBus for each adapter, and one shard's loop that the test turns.
//
// Over a path of one host all adapters are on that host; over one between hosts each is on its own.
//
// Time is the test's own and runs only while nobody has anything to do: where the kernel carries messages, no
// faster than real time; elsewhere from deadline to deadline. So a busy machine makes no time limit of a QP
// run out. The one real time limit ends a test that hangs.
//
// Thread: one.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "conformance/paths.h"
#include "device/adapter.h"
#include "driver/driver.h"
#include "fabric/fabric.h"
#include "fabric/port.h"
#include "shard/loop.h"
#include "support/manual_clock.h"
#include "support/testbench.h"
#include "transport/fault/fault.h"

namespace pvrdma::conformance {

class World {
 public:
  // `options`: of all drivers.
  World(const PathUnderTest& path, std::uint32_t adapters, const driver::DeviceOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The driver of an adapter, with test::gid_of(index) bound at GID index 0. Opened at first use.
  driver::Device& device(std::uint32_t index);
  // Whose objects a case makes: a process's, whose doorbells may be mapped; with trapped ones, the kernel's.
  driver::Context& context(std::uint32_t index);
  const verbs::Counters& counters(std::uint32_t index) {
    return adapters_[index]->device->engine().counters();
  }

  device::Adapter& adapter(std::uint32_t index) { return *adapters_[index]->device; }
  // Between the driver and its adapter; when the driver is open.
  test::InProcessBus& bus(std::uint32_t index) { return *adapters_[index]->bus; }

  // Writes to regions of the adapter that were calls, no stores to mapped pages.
  std::uint64_t calls(std::uint32_t index) const { return adapters_[index]->bus->writes(); }

  // Binds or unbinds a GID and lets all hosts know.
  void bind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid);
  void unbind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid);

  // The adapter goes, its VM dying with it. Objects made from its driver may still be destroyed.
  void remove(std::uint32_t index);
  // An adapter's host loses its transport; it has no path of the kind any more.
  void drop_transport(std::uint32_t index);

  // Of every host.
  void set_faults(const transport::FaultSettings& settings);
  transport::FaultCounters faults() const;  // of all hosts together
  // No path has room for requests, until unblock().
  void block();
  void unblock();
  // Cuts all connections between hosts, once; how many they were.
  int cut();

  // With paths that lend: how many requests' payload the adapter's host has fetched.
  std::uint64_t fetched(std::uint32_t index) const { return adapters_[index]->host->path->fetched(); }
  // From now on whatever RDMA NICs carry takes up to so long.
  void slow_nics(Duration most) { nics_.set_delay(most); }
  // As they do when the file of the memory has been shrunk.
  void lose_what_nics_read() { nics_.lose_reads(); }
  // As when its VM is about to move.
  void stop(std::uint32_t index) { adapters_[index]->port->set_stopped(true); }

  // Lets everything go on, and time, until `done()` holds. False: nobody has anything to do any more, now or
  // later, or the test hangs.
  template <typename Done>
  [[nodiscard]] bool wait(Done done) {
    const Instant hangs = Instant::now() + kPatience;
    quiet_turns_ = 0;
    while (!done()) {
      if (!go_on() || Instant::now() > hangs) return done();
    }
    return true;
  }
  // What was posted is begun, as it is at once where doorbells are trapped.
  void find_doorbells() {
    if (path_.doorbells == DoorbellMode::kMapped) loop_->turn(Duration{0});
  }
  // Lets everything go on for `time`.
  void pass(Duration time);
  Instant now() const { return clock_.now(); }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(60);

  struct Host {
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<HostPath> path;
    std::unique_ptr<transport::Fault> fault;  // null: the path is bare
    transport::Transport* transport = nullptr;
  };
  class RunningAdapter;
  struct Adapter {
    Host* host;
    std::unique_ptr<fabric::Port> port;
    std::unique_ptr<device::Adapter> device;
    std::unique_ptr<RunningAdapter> running;
    std::unique_ptr<driver::Device> driver;
    std::unique_ptr<driver::Context> process;  // mapped doorbells only
    test::InProcessBus* bus = nullptr;         // the driver's
  };

  void add_host(std::uint32_t index);
  void add_adapter(std::uint32_t index);
  void end_transport(Host& host);
  // Every host hears which GIDs the others hold.
  void publish();
  // Time runs to the next deadline, but not past `until`. False: nothing to do, and no deadline.
  bool go_on(Instant until = Instant::never());
  Instant next_deadline() const;
  // Whether a word may lie in a page that nobody has looked at since the last turn with work.
  bool may_be_rung() const;

  const PathUnderTest path_;
  const driver::DeviceOptions options_;
  test::ManualClock clock_;
  transport::hca::FakeNetwork nics_;  // outlives what is left in the loop
  std::unique_ptr<shard::Loop> loop_;
  Ethernet ethernet_;
  transport::hca::HostBook book_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::size_t quiet_turns_ = 0;  // since the last one with work
};

}  // namespace pvrdma::conformance
