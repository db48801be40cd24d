#include "sim/cluster.h"

#include <algorithm>

#include "sim/operation.h"
#include "support/must.h"

namespace pvrdma::sim {

Cluster::Host::Host(Cluster& of, std::uint32_t at, bool is_stranger)
    : cluster(of),
      index(at),
      stranger(is_stranger),
      tcp(LaneNetwork::id_of(at), of.lanes_),
      fabric(of.clock_, this) {
  fabric.use(local);
  fabric.use(tcp);
  if (!of.has_strangers_) return;
  roce.emplace(fabric, transport::RoceOptions{.connections_max = 64});
  test::must(
      roce->add_link([&](transport::roce::FrameHandler& handler) { return of.wire_.plug(index, handler); }));
  roce->assign(0, kSegment);
  fabric.use(*roce);
  if (stranger) fabric.segment(kSegment).set_native(fabric::NativeRule{kSegment, {}});
}

void Cluster::Host::on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid,
                                 const std::string& /*port*/) {
  require(segment == kSegment, "a GID was bound in another segment");
  if (stranger) {
    held.insert(gid);
  } else if (alive) {
    cluster.directory_.bound(index, gid, cluster.clock_.now());
  }
}

void Cluster::Host::on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) {
  require(segment == kSegment, "a GID was unbound in another segment");
  if (stranger) {
    held.erase(gid);
  } else if (alive) {
    cluster.directory_.unbound(index, gid, cluster.clock_.now());
  }
}

void Cluster::Host::on_host_up(transport::HostId host, bool up) {
  require(up == tcp.is_up(host) && told_up[host] != up, "a host was told to be what it is not, or was");
  told_up[host] = up;
}

Cluster::Cluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t strangers, const Clock& clock)
    : clock_(clock),
      has_strangers_(strangers != 0),
      lanes_(seed, hosts),
      wire_(seed, clock),
      directory_(~seed, hosts, kSegment, has_strangers_),
      hosts_(hosts) {
  for (std::uint32_t i = 0; i < hosts; ++i) start(i, i >= hosts - strangers);
}

Cluster::~Cluster() = default;

void Cluster::kill(std::uint32_t host) {
  hosts_[host]->alive = false;
  if (has_strangers_) wire_.set_up(host, false);
  lanes_.detach(LaneNetwork::id_of(host), clock_.now());
  directory_.died(host, clock_.now());
}

void Cluster::start(std::uint32_t host) {
  start(host, false);
}

void Cluster::start(std::uint32_t host, bool as_stranger) {
  hosts_[host].reset();
  hosts_[host] = std::make_unique<Host>(*this, host, as_stranger);
  lanes_.attach(LaneNetwork::id_of(host), hosts_[host]->fabric);
  if (!as_stranger) directory_.started(host, clock_.now());
}

void Cluster::join(std::uint32_t host) {
  Host& joining = *hosts_[host];
  joining.stranger = false;
  directory_.started(host, clock_.now());
  for (const verbs::Gid& gid : joining.held) directory_.bound(host, gid, clock_.now());
}

// As pvrdmad: the transport first, then the fabric.
bool Cluster::turn() {
  const Instant now = clock_.now();
  for (auto& [index, view] : directory_.take_due(now)) {
    Host& host = *hosts_[index];
    if (!host.alive) continue;
    std::set<transport::HostId> peers;
    for (const fabric::RemoteHost& other : view.hosts) {
      if (other.path == fabric::PathKind::kTcp) peers.insert(other.id);
    }
    lanes_.configure(LaneNetwork::id_of(index), std::move(peers), now);
    host.fabric.set_view(std::move(view));
    ++views_delivered_;
  }
  lanes_.deliver(now);
  wire_.deliver();
  bool more = false;
  for (const auto& host : hosts_) more = (host->roce && host->roce->run(now)) || more;
  return more;
}

bool Cluster::at_rest() const {
  if (!directory_.at_rest()) return false;
  for (const auto& host : hosts_) {
    if (!host->alive || host->fabric.view() != directory_.view_for(host->index)) return false;
    for (const fabric::RemoteHost& other : host->fabric.view().hosts) {
      if (!host->tcp.is_up(other.id)) return false;
    }
  }
  return true;
}

}  // namespace pvrdma::sim
