// Cluster: some hosts, each with its fabric, its local transport and its end of the lanes, and the directory
// that tells them of each other. Thread: the world's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "sim/directory.h"
#include "sim/lane_network.h"
#include "transport/local/local.h"

namespace pvrdma::sim {

class Cluster {
 public:
  // `clock` is borrowed. All hosts are up.
  Cluster(std::uint64_t seed, std::uint32_t hosts, const Clock& clock);
  ~Cluster();  // no port is left
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(hosts_.size()); }

  // It dies now: nothing of it reaches anybody. Its ports are gone before start().
  void kill(std::uint32_t host);
  // A new daemon, which knows nothing.
  void start(std::uint32_t host);
  bool is_up(std::uint32_t host) const { return hosts_[host]->alive; }

  // Where its VMs' adapters are.
  fabric::Switch& segment(std::uint32_t host) { return hosts_[host]->fabric.segment(kSegment); }
  const fabric::View& view(std::uint32_t host) const { return hosts_[host]->fabric.view(); }
  LaneNetwork& lanes() { return lanes_; }
  Directory& directory() { return directory_; }

  Instant next_event() const { return std::min(lanes_.next_event(), directory_.next_event()); }
  // What is due happens: messages and views arrive. On an empty stack.
  void turn();
  // Every host knows what the directory says, and has its lanes.
  bool at_rest() const;

  std::uint64_t views_delivered() const { return views_delivered_; }
  std::uint64_t messages_lost() const { return lanes_.lost(); }

 private:
  static constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 10};

  struct Host final : fabric::Observer {
    Host(Cluster& cluster, std::uint32_t index);
    void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
    void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
    void on_host_up(transport::HostId host, bool up) override;

    Cluster& cluster;
    const std::uint32_t index;
    bool alive = true;
    std::map<transport::HostId, bool> told_up;
    transport::Local local;
    HostTransport tcp;
    fabric::Fabric fabric;
  };

  const Clock& clock_;
  LaneNetwork lanes_;
  Directory directory_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::uint64_t views_delivered_ = 0;
};

}  // namespace pvrdma::sim
