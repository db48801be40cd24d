// Cluster: several hosts, each with its fabric, its local transport and its end of the lanes, and the
// directory from which they learn of each other.
//
// Some hosts may be strangers at first: the directory does not know them, and they know no other host.
// Strangers and the other hosts treat each other as native endpoints, over one wire, until the stranger
// joins. Thread: the world's.
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
#include "transport/hca/fake_nic.h"
#include "transport/hca/fake_surroundings.h"
#include "transport/hca/hca.h"
#include "transport/local/local.h"
#include "transport/roce/roce.h"

namespace pvrdma::sim {

class Cluster {
 public:
  // `clock` is borrowed. All hosts are up. The last `strangers` hosts are strangers. With `hcas` each host
  // has an RDMA NIC.
  Cluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t strangers, bool hcas, const Clock& clock);
  ~Cluster();  // all ports are gone before
  Cluster(const Cluster&) = delete;
  Cluster& operator=(const Cluster&) = delete;

  std::uint32_t count() const { return static_cast<std::uint32_t>(hosts_.size()); }

  // The host dies now, and nothing that it has sent arrives. The caller removes its ports before start().
  void kill(std::uint32_t host);
  // Starts a new daemon on the host, with no memory of the old one.
  void start(std::uint32_t host);
  bool is_up(std::uint32_t host) const { return hosts_[host]->alive; }

  bool is_stranger(std::uint32_t host) const { return hosts_[host]->stranger; }
  // The stranger joins the cluster, with all GIDs that it holds.
  void join(std::uint32_t host);

  // The switch of the host's adapters.
  fabric::Switch& segment(std::uint32_t host) { return hosts_[host]->fabric.segment(kSegment); }
  const fabric::View& view(std::uint32_t host) const { return hosts_[host]->fabric.view(); }
  LaneNetwork& lanes() { return lanes_; }
  Directory& directory() { return directory_; }

  // The port of the host's NIC goes down, until bring_port_up().
  void take_port_down(std::uint32_t host);
  void bring_port_up(std::uint32_t host);
  // All QPs of the host's NIC fail, as if a peer did not answer.
  void break_pipes(std::uint32_t host);
  bool has_hcas() const { return hcas_loop_ != nullptr; }
  std::uint64_t messages_by_hca() const;
  transport::HcaBulk bulk() const;
  std::uint64_t crimes() const { return nics_.crimes(); }

  Instant next_event() const;
  // Delivers the messages, views and frames that are due. On an empty stack. True: there is more to do now.
  bool turn();
  // Every host is up, has the directory's newest view, and has all its lanes.
  bool at_rest() const;

  std::uint64_t views_delivered() const { return views_delivered_; }
  std::uint64_t messages_lost() const { return lanes_.lost(); }
  const Wire::Tally& frames() const { return wire_.tally(); }

 private:
  void start(std::uint32_t host, bool as_stranger);

  static constexpr transport::SegmentId kSegment{.dvs = 1, .vlan = 10};

  struct Host final : fabric::FabricObserver {
    Host(Cluster& cluster, std::uint32_t index, bool stranger);
    ~Host() override;
    void lose_hca();
    std::string device() const { return "rdma" + std::to_string(index); }
    std::string name() const { return "esx" + std::to_string(index); }
    void on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) override;
    void on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) override;
    void on_gid_moved(transport::SegmentId segment, const verbs::Gid& gid) noexcept override;
    void on_host_up(transport::HostId host, bool up) override;

    Cluster& cluster;
    const std::uint32_t index;
    bool alive = true;
    bool stranger;
    std::set<verbs::Gid> held;  // by a stranger
    std::map<transport::HostId, bool> told_up;
    transport::Local local;
    HostTransport tcp;
    fabric::Fabric fabric;
    std::optional<transport::Roce> roce;  // only in a cluster with strangers
    // Only with HCAs.
    transport::hca::LaterWorker worker;
    std::optional<transport::hca::DirectIntroducer> introducer;
    std::unique_ptr<transport::Hca> hca;
  };

  const Clock& clock_;
  const bool has_strangers_;
  LaneNetwork lanes_;
  Wire wire_;
  Directory directory_;
  transport::hca::FakeNetwork nics_;
  transport::hca::HostBook book_;
  std::unique_ptr<shard::Loop> hcas_loop_;  // null: hosts have no HCAs
  std::uint64_t by_hca_ = 0;                // messages of hosts that are gone
  transport::HcaBulk bulk_;                 // of hosts that are gone
  std::vector<std::unique_ptr<Host>> hosts_;
  std::uint64_t views_delivered_ = 0;
};

}  // namespace pvrdma::sim
