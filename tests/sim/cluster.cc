#include "sim/cluster.h"

#include <algorithm>

#include "sim/operation.h"
#include "support/must.h"

namespace pvrdma::sim {
namespace {

void add(transport::HcaBulk& sum, const transport::HcaBulk& more) {
  sum.lent += more.lent;
  sum.fetched += more.fetched;
  sum.stops += more.stops;
}

}  // namespace

Cluster::Host::Host(Cluster& of, std::uint32_t at, bool is_stranger)
    : cluster(of),
      index(at),
      stranger(is_stranger),
      tcp(LaneNetwork::id_of(at), of.lanes_),
      fabric(of.clock_, this) {
  fabric.use(local);
  fabric.use(tcp);
  if (of.has_hcas()) {
    verbs::Gid gid{{0xfe, 0x80}};
    gid.bytes[15] = static_cast<std::uint8_t>(index + 1);
    of.nics_.add(device(), index % 2 == 0 ? transport::hca::kConnectX5 : transport::hca::kE810, {gid});
    introducer.emplace(of.book_, name());
    of.hcas_loop_->add(worker);
    hca = std::make_unique<transport::Hca>(
        transport::HcaOptions{
            .open = [&of](const std::string& device,
                          transport::hca::NicUser& user) { return of.nics_.open(device, user); },
            .introducer = *introducer,
            .worker = worker,
            .lanes =
                [this](transport::HostId host) {
                  using enum transport::hca::LaneState;
                  return tcp.is_up(host) ? kUp : kDown;
                },
            .times = {.proof_first = std::chrono::milliseconds(1),
                      .proof_max = std::chrono::milliseconds(8),
                      .bulk_pause_first = std::chrono::microseconds(100),
                      .bulk_pause_max = std::chrono::milliseconds(1)},
            .lends_from = index % 3 == 2 ? 8U * 1024 : 1U},
        *of.hcas_loop_, of.clock_, fabric);
    of.book_.hosts[{name(), {}}] = hca.get();
    fabric.use(*hca);
  }
  if (!of.has_strangers_) return;
  roce.emplace(fabric, transport::RoceOptions{.connections_max = 64});
  test::must(
      roce->add_link([&](transport::roce::FrameHandler& handler) { return of.wire_.plug(index, handler); }));
  roce->assign(0, kSegment);
  fabric.use(*roce);
  if (stranger) fabric.segment(kSegment).set_native(fabric::NativeRule{kSegment, {}});
}

Cluster::Host::~Host() {
  if (cluster.has_hcas()) lose_hca();
}

void Cluster::Host::lose_hca() {
  if (hca == nullptr) return;
  cluster.by_hca_ += hca->counters().messages();
  add(cluster.bulk_, hca->bulk());
  cluster.book_.hosts.erase({name(), {}});
  fabric.drop(fabric::PathKind::kHca);
  hca.reset();
  while (worker.run({})) {
  }
  cluster.hcas_loop_->remove(worker);
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

void Cluster::Host::on_gid_moved(transport::SegmentId /*segment*/, const verbs::Gid& /*gid*/) noexcept {
  require(false, "an adapter moved between shards, and each host here has one");
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
  const bool is_up = tcp.is_up(host) || (hca != nullptr && hca->is_up(host));
  require(up == is_up && (hca != nullptr || told_up[host] != up),
          "a host was told to be what it is not, or was");
  told_up[host] = up;
}

Cluster::Cluster(std::uint64_t seed, std::uint32_t hosts, std::uint32_t strangers, bool hcas,
                 const Clock& clock)
    : clock_(clock),
      has_strangers_(strangers != 0),
      lanes_(seed, hosts),
      wire_(seed, clock),
      directory_(~seed, hosts, kSegment, {.natives = has_strangers_, .hcas = hcas}),
      nics_(seed + 1, clock),
      hosts_(hosts) {
  if (hcas) {
    hcas_loop_ = test::must(shard::Loop::create({}, clock));
    hcas_loop_->add(nics_);
    // Slow NICs leave time for events in the meantime.
    nics_.set_delay(std::chrono::microseconds(seed % 2 == 0 ? 20 : 400));
    nics_.set_patience(std::chrono::milliseconds(2));
  }
  for (std::uint32_t i = 0; i < hosts; ++i) start(i, i >= hosts - strangers);
}

Cluster::~Cluster() {
  hosts_.clear();
  if (has_hcas()) hcas_loop_->remove(nics_);
}

void Cluster::take_port_down(std::uint32_t host) {
  nics_.set_port(hosts_[host]->device(), false);
}

void Cluster::bring_port_up(std::uint32_t host) {
  if (hosts_[host]->alive) nics_.set_port(hosts_[host]->device(), true);
}

void Cluster::break_pipes(std::uint32_t host) {
  nics_.break_qps(hosts_[host]->device());
}

transport::HcaBulk Cluster::bulk() const {
  transport::HcaBulk sum = bulk_;
  for (const auto& host : hosts_) {
    if (host->hca != nullptr) add(sum, host->hca->bulk());
  }
  return sum;
}

std::uint64_t Cluster::messages_by_hca() const {
  std::uint64_t sum = by_hca_;
  for (const auto& host : hosts_) {
    if (host->hca != nullptr) sum += host->hca->counters().messages();
  }
  return sum;
}

Instant Cluster::next_event() const {
  Instant next = std::min({lanes_.next_event(), directory_.next_event(), wire_.next_event()});
  if (!has_hcas()) return next;
  next = std::min(next, nics_.next_deadline());
  for (const auto& host : hosts_) {
    next = std::min(next, host->worker.next_deadline());
    if (host->hca != nullptr) next = std::min(next, host->hca->next_deadline());
  }
  return next;
}

void Cluster::kill(std::uint32_t host) {
  hosts_[host]->alive = false;
  if (has_hcas()) {
    nics_.destroy(hosts_[host]->device());
    hosts_[host]->lose_hca();
  }
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

// Applies views like pvrdmad: to the transport first, then to the fabric.
bool Cluster::turn() {
  const Instant now = clock_.now();
  for (auto& [index, view] : directory_.take_due(now)) {
    Host& host = *hosts_[index];
    if (!host.alive) continue;
    std::set<transport::HostId> peers;
    transport::HcaSettings settings{.device = host.device()};
    for (const fabric::RemoteHost& other : view.hosts) {
      if (other.path == fabric::PathKind::kNone) continue;
      peers.insert(other.id);
      if (other.path == fabric::PathKind::kHca)
        settings.peers.push_back({other.id, hosts_[other.id.value - 1]->name()});
    }
    lanes_.configure(LaneNetwork::id_of(index), std::move(peers), now);
    if (host.hca != nullptr) host.hca->configure(settings);
    host.fabric.set_view(std::move(view));
    ++views_delivered_;
  }
  lanes_.deliver(now);
  wire_.deliver();
  bool more = has_hcas() && hcas_loop_->turn(Duration{0});
  for (const auto& host : hosts_) more = (host->roce && host->roce->run(now)) || more;
  return more;
}

bool Cluster::at_rest() const {
  if (!directory_.at_rest()) return false;
  for (const auto& host : hosts_) {
    if (!host->alive || host->fabric.view() != directory_.view_for(host->index)) return false;
    for (const fabric::RemoteHost& other : host->fabric.view().hosts) {
      if (!host->tcp.is_up(other.id) || (host->hca != nullptr && !host->hca->is_up(other.id))) return false;
    }
  }
  return true;
}

}  // namespace pvrdma::sim
