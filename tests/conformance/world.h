// World: hosts with whole adapters, all in one thread, joined by the path under test. Each host has a fabric,
// each adapter has the user-space driver over an InProcessBus, and the test turns one shard's loop.
//
// If the path is within a shard, all adapters are on one host. If it is between hosts, each adapter has its
// own host. If it is between shards of one host, each adapter has its own shard, which the test's only loop
// turns; such a shard is a Host here, too.
//
// Time is simulated, and passes only while there is nothing to do: no faster than real time if the kernel
// carries messages, otherwise from deadline to deadline. So no time limit of a QP runs out because the
// machine is busy. The only real time limit ends a test that hangs.
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
#include "fabric/host_gids.h"
#include "fabric/port.h"
#include "shard/loop.h"
#include "support/manual_clock.h"
#include "support/running_adapter.h"
#include "support/testbench.h"
#include "transport/fault/fault.h"

namespace pvrdma::conformance {

class World {
 public:
  // All drivers are opened with `options`.
  World(const PathUnderTest& path, std::uint32_t adapters, const driver::DeviceOptions& options = {});
  ~World();
  World(const World&) = delete;
  World& operator=(const World&) = delete;

  // The driver of an adapter, opened at first use. test::gid_of(index) is bound at GID index 0.
  driver::Device& device(std::uint32_t index);
  // The context in which cases make their objects: with mapped doorbells a process's, with trapped doorbells
  // the kernel's.
  driver::Context& context(std::uint32_t index);
  const verbs::Counters& counters(std::uint32_t index) {
    return adapters_[index]->device->engine().counters();
  }

  device::Adapter& adapter(std::uint32_t index) { return *adapters_[index]->device; }
  // The bus between the driver and its adapter. Only when the driver is open.
  test::InProcessBus& bus(std::uint32_t index) { return *adapters_[index]->bus; }

  // The number of writes to the adapter's regions that were calls, not stores to mapped pages.
  std::uint64_t calls(std::uint32_t index) const { return adapters_[index]->bus->writes(); }

  // Binds or unbinds a GID and tells all hosts.
  void bind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid);
  void unbind(std::uint32_t index, std::uint32_t gid_index, const abi::Gid& gid);

  // Destroys the adapter, as if its VM died. Objects made from its driver may still be destroyed.
  void remove(std::uint32_t index);
  // The adapter's host loses its transport, and so its paths of the kind under test.
  void drop_transport(std::uint32_t index);

  // Sets the faults of every host.
  void set_faults(const transport::FaultSettings& settings);
  transport::FaultCounters faults() const;  // the sum over all hosts
  // No path has room for requests, until unblock().
  void block();
  void unblock();
  // Cuts all connections between hosts once, and returns their number.
  int cut();

  // How many requests' payload the adapter's host has fetched. Only with paths that lend.
  std::uint64_t fetched(std::uint32_t index) const { return adapters_[index]->host->path->fetched(); }
  // From now on, each operation of an RDMA NIC takes up to `most`.
  void slow_nics(Duration most) { nics_.set_delay(most); }
  // RDMA NICs lose what they read, as if the memory's file had been shrunk.
  void lose_what_nics_read() { nics_.lose_reads(); }
  // Stops the adapter's port, as when its VM is about to move.
  void stop(std::uint32_t index) { adapters_[index]->port->set_stopped(true); }

  // Runs everything, and lets time pass, until `done()` holds. False: there is nothing left to do, now or
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
  // Begins posted requests. With trapped doorbells that has happened already.
  void find_doorbells() {
    if (path_.doorbells == DoorbellMode::kMapped) loop_->turn(Duration{0});
  }
  // Runs everything for `time`.
  void pass(Duration time);
  Instant now() const { return clock_.now(); }

 private:
  static constexpr Duration kPatience = std::chrono::seconds(60);

  struct Host {
    std::unique_ptr<fabric::Fabric> fabric;
    std::unique_ptr<HostPath> path;
    std::unique_ptr<transport::Fault> fault;  // null: no faults are injected
    transport::Transport* transport = nullptr;
  };
  struct Adapter {
    Host* host;
    std::unique_ptr<fabric::Port> port;
    std::unique_ptr<device::Adapter> device;
    std::unique_ptr<test::RunningAdapter> running;
    std::unique_ptr<driver::Device> driver;
    std::unique_ptr<driver::Context> process;  // only with mapped doorbells
    test::InProcessBus* bus = nullptr;         // owned by `driver`
  };

  void add_host(std::uint32_t index);
  void add_adapter(std::uint32_t index);
  void end_transport(Host& host);
  // Tells every host which GIDs the others hold.
  void publish();
  // Runs one turn, or lets time pass to the next deadline, but not past `until`. False: nothing to do, and no
  // deadline.
  bool go_on(Instant until = Instant::never());
  Instant next_deadline() const;
  // Whether a doorbell page that was not polled since the last turn with work may contain a doorbell.
  bool may_be_rung() const;

  const PathUnderTest path_;
  const driver::DeviceOptions options_;
  test::ManualClock clock_;
  transport::hca::FakeNetwork nics_;  // outlives everything in the loop
  std::unique_ptr<shard::Loop> loop_;
  Ethernet ethernet_;
  transport::hca::HostBook book_;
  fabric::HostGids shards_gids_{kShardsMax};               // between shards
  std::shared_ptr<transport::siblings::HostRings> rings_;  // null otherwise
  std::vector<std::unique_ptr<Host>> hosts_;
  std::vector<std::unique_ptr<Adapter>> adapters_;
  std::size_t quiet_turns_ = 0;  // turns since the last one with work
};

}  // namespace pvrdma::conformance
