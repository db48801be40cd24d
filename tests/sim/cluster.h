// Cluster: some hosts, each with its fabric, its local transport and its end of the lanes, and the directory
// that tells them of each other.
//
// Some may be strangers at first: hosts that the directory does not know and that know nobody. They and the
// others take each other for native endpoints, over one wire, until a stranger joins. Thread: the world's.
#pragma once

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "fabric/fabric.h"
#include "sim/directory.h"
#include "sim/lane_network.h"
#include "sim/wire.h"
#include "transport/local/local.h"
#include "transport/roce/roce.h"

namespace pvrdma::sim {

class Cluster {
 public:
  // `clock` is borrowed. All hosts are up; the last ones are strangers.
  Cluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t strangers, const Clock& clock);
  ~Cluster();  // no port is left
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(hosts_.size()); }

  // It dies now: nothing of it reaches anybody. Its ports are gone before start().
  void kill(std::uint32_t host);
  // A new daemon, which knows nothing.
  void start(std::uint32_t host);
  bool is_up(std::uint32_t host) const { return hosts_[host]->alive; }

  bool is_stranger(std::uint32_t host) const { return hosts_[host]->stranger; }
  // With all GIDs that it holds.
  void join(std::uint32_t host);

  // Where its VMs' adapters are.
  fabric::Switch& segment(std::uint32_t host) { return hosts_[host]->fabric.segment(kSegment); }
  const fabric::View& view(std::uint32_t host) const { return hosts_[host]->fabric.view(); }
  LaneNetwork& lanes() { return lanes_; }
  Directory& directory() { return directory_; }

  Instant next_event() const {
    return std::min({lanes_.next_event(), directory_.next_event(), wire_.next_event()});
  }
  // What is due happens: messages, views and frames arrive. On an empty stack. True: there is more to do now.
  bool turn();
  // Every host knows what the directory says, and has its lanes.
  bool at_rest() const;

  std::uint64_t views_delivered() const { return views_delivered_; }
  std::uint64_t messages_lost() const { return lanes_.lost(); }
  const Wire::Tally& frames() const { return wire_.tally(); }

 private:
  void start(std::uint32_t host, bool as_stranger);

  static constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 10};

  struct Host final : fabric::Observer {
    Host(Cluster& cluster, std::uint32_t index, bool stranger);
    void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
    void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
    void on_host_up(transport::HostId host, bool up) override;

    Cluster& cluster;
    const std::uint32_t index;
    bool alive = true;
    bool stranger;
    std::set<verbs::Gid> held;  // a stranger's
    std::map<transport::HostId, bool> told_up;
    transport::Local local;
    HostTransport tcp;
    fabric::Fabric fabric;
    std::optional<transport::Roce> roce;  // where there are strangers
  };

  const Clock& clock_;
  const bool has_strangers_;
  LaneNetwork lanes_;
  Wire wire_;
  Directory directory_;
  std::vector<std::unique_ptr<Host>> hosts_;
  std::uint64_t views_delivered_ = 0;
};

}  // namespace pvrdma::sim
