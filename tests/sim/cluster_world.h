// ClusterWorld: VMs on several hosts with real fabrics. Views come late, lanes break, hosts die, and VMs and
// GIDs move. Thread: one.
//
// There are two kinds of disturbance. A guest must not notice an interruption: it is short, comes alone, and
// is followed by enough time for each QP to make progress. Trouble may end connections: these are told before
// (Connection::trouble()).
#pragma once

#include <functional>
#include <map>

#include "sim/cluster.h"
#include "sim/world.h"
#include "support/machines.h"
#include "transport/hca/pipe.h"

namespace pvrdma::sim {

struct ClusterOptions {
  std::uint64_t seed = 1;
  std::uint32_t hosts = 2;
  std::uint32_t vms = 4;
  std::uint32_t connections = 4;
  std::uint32_t strangers = 0;  // at first; until all have joined, no VM is lost or moved
  HardwareVersion hardware_version = HardwareVersion::k18;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  // Only lanes break and adapters stop, and no QP has a timer. A QP that is not told of a lane's return waits
  // for ever.
  bool only_lanes = false;
  bool hcas = false;  // each host has an RDMA NIC
};

// Members that World borrows.
struct ClusterParts {
  explicit ClusterParts(const ClusterOptions& options);

  test::Machines machines;
  Cluster cluster;
};

class ClusterWorld final : private ClusterParts, public World {
 public:
  explicit ClusterWorld(const ClusterOptions& options);
  ~ClusterWorld() override;

  struct ClusterTally {
    std::uint64_t hosts_died = 0;
    std::uint64_t vms_moved = 0;
    std::uint64_t gids_moved = 0;
    std::uint64_t binds_refused = 0;
    std::uint64_t rulesets_off = 0;
    std::uint64_t links_down = 0;
    std::uint64_t adapters_stopped = 0;
    std::uint64_t cuts = 0;
    std::uint64_t lies = 0;
    std::uint64_t views_delivered = 0;
    std::uint64_t messages_lost = 0;
    std::uint64_t strangers_joined = 0;
    std::uint64_t frames = 0;
    std::uint64_t ports_down = 0;
    std::uint64_t pipes_broken = 0;
    std::uint64_t messages_by_hca = 0;
    transport::HcaBulk bulk;
  };
  ClusterTally cluster_tally() const;

 private:
  void pass(Duration time) override;
  Instant guests_rest_until() const override {
    return agenda_.empty() ? Instant::never() : agenda_.begin()->first;
  }
  void disturb(std::size_t index) override;
  void calm_down() override;
  test::ConnectOptions connect_options() override;
  void replace(std::uint32_t index) override;
  void connected(Connection& connection) override;
  // A host that only waits for answers asks after kPingPause whether its pipe still leads to the peer.
  Duration patience() const override {
    return World::patience() + (cluster.has_hcas() ? transport::hca::kPingPause : Duration(0));
  }

  // pass() calls `action` after `time`, on an empty stack.
  void later(Duration time, std::function<void()> action);
  std::uint32_t any_host() { return random_.below(cluster.count()); }
  std::pair<std::uint32_t, std::uint32_t> any_pair();
  bool connects(const Connection& connection, std::uint32_t a, std::uint32_t b) const;

  void interrupt();
  void change_weather();
  void break_lanes();
  void disable_ruleset();
  void take_link_down();
  void disturb_hcas();
  void stop_adapter();

  void join_stranger();

  void make_trouble(std::size_t index);
  void cut();
  void kill_host();
  void move_vm();
  void swap_gids();
  void wait_for_the_end(std::uint32_t index);

  void schedule_boot(std::uint32_t index, std::uint32_t host, Duration time);
  void try_boot(std::uint32_t index, std::uint32_t host);
  // Binds the VM's GID. False: it was refused. Checks that this happens exactly while its host's view has the
  // GID on another host.
  bool bind(std::uint32_t index);
  bool is_seen_elsewhere(std::uint32_t index, const abi::Gid& gid) const;
  void verify_paths();

  const bool only_lanes_;
  std::uint32_t strangers_;             // the last hosts
  std::vector<std::uint32_t> host_of_;  // by VM, on or off
  std::vector<abi::Gid> gid_of_;
  std::vector<std::uint32_t> boots_;  // by VM: how often a boot was scheduled; only the newest one counts
  std::multimap<Instant, std::function<void()>> agenda_;
  Instant calm_until_{};  // no interruption before then
  ClusterTally cluster_tally_;
};

}  // namespace pvrdma::sim
