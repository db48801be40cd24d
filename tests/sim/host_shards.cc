#include "sim/host_shards.h"

#include <algorithm>
#include <poll.h>
#include <string>
#include <utility>

#include "sim/operation.h"
#include "support/must.h"

namespace pvrdma::sim {
namespace {

using test::must;

transport::ShardNumber to_number(std::size_t index) {
  return transport::ShardNumber(static_cast<std::uint16_t>(index));
}

}  // namespace

// --- One shard ---

HostShards::Shard::Shard(HostShards& of, std::uint32_t index, std::uint32_t shards_of_host)
    : host(of),
      rings(of.rings_),
      number(to_number(index)),
      loop(must(shard::Loop::create({.shard = index}, of.clock_))),
      fabric(of.clock_, of.gids_, number, of.outside_ ? this : nullptr) {
  fabric.use(local);
  if (of.outside_) {
    tcp.emplace(of.id_of(index), of.outside_->lanes);
    fabric.use(*tcp);
    of.outside_->lanes.attach(of.id_of(index), fabric, [this] { sleeps = false; });
  }
  if (of.outside_ && of.outside_->nics != nullptr) {
    const ShardHca::Where where{.index = of.outside_->first_shard + index,
                                .host = of.outside_->host,
                                .shards_of_each = shards_of_host};
    hca = std::make_unique<ShardHca>(*of.outside_->nics, where, *loop, of.clock_, fabric, *tcp,
                                     [this] { sleeps = false; });
  }
  if (rings == nullptr) return;
  siblings = must(transport::Siblings::create(rings, number, *loop, *this));
  fabric.use(*siblings);  // instead of `local`
}

HostShards::Shard::~Shard() {
  hca.reset();
  if (host.outside_) host.outside_->lanes.detach(host.id_of(number.value), host.clock_.now());
  fabric.drop(transport::PathKind::kLocal);
}

void HostShards::Shard::on_gid_bound(transport::SegmentId /*segment*/, const verbs::Gid& gid,
                                     const std::string& /*port*/) {
  host.outside_->directory.bound(host.outside_->host, gid, host.clock_.now(), number.value);
}

void HostShards::Shard::on_gid_unbound(transport::SegmentId /*segment*/, const verbs::Gid& gid) {
  host.outside_->directory.unbound(host.outside_->host, gid, host.clock_.now());
}

void HostShards::Shard::on_gid_moved(transport::SegmentId /*segment*/, const verbs::Gid& gid) noexcept {
  host.outside_->directory.moved(host.outside_->host, gid, host.clock_.now(), number.value);
}

void HostShards::Shard::on_host_up(transport::HostId other, bool up) {
  require(reaches(other) == up, "a shard was told that another one is what it is not");
}

bool HostShards::Shard::reaches(transport::HostId other) const {
  return tcp->is_up(other) || (hca != nullptr && hca->is_up(other));
}

transport::SiblingInbound::Admission HostShards::Shard::admit(transport::ShardNumber from,
                                                              transport::SegmentId segment,
                                                              const verbs::Gid& source,
                                                              const verbs::Gid& destination) {
  ++tally.messages;
  return fabric.admit(from, segment, source, destination);
}

void HostShards::Shard::on_room() {
  ++tally.rooms;
  fabric.on_room();
}

void HostShards::Shard::on_restored(transport::ShardNumber from, Instant now) {
  ++tally.restored;
  fabric.on_restored(from, now);
}

bool HostShards::Shard::bell_rang() const {
  if (rings == nullptr) return false;
  pollfd bell{.fd = rings->bell(number).fd(), .events = POLLIN, .revents = 0};
  return ::poll(&bell, 1, 0) == 1;
}

bool HostShards::Shard::can_turn(Instant now) const {
  if (now < away_until) return false;
  return !sleeps || !tasks.empty() || next_deadline() <= now || looks_at <= now || bell_rang();
}

bool HostShards::Shard::polls() const {
  return std::ranges::any_of(running, [](const auto& each) { return each.second.polls(); });
}

Instant HostShards::Shard::next_deadline() const {
  Instant next = siblings != nullptr ? siblings->next_deadline() : Instant::never();
  if (hca != nullptr) next = std::min(next, hca->next_deadline());
  for (const auto& [vm, adapter] : running) next = std::min(next, adapter.next_deadline());
  return next;
}

// As Loop::run() does it, but without spins.
void HostShards::Shard::turn(Instant now) {
  if (sleeps && bell_rang()) ++tally.bells;
  sleeps = false;
  looks_at = Instant::never();
  for (const auto& task : std::exchange(tasks, {})) task();
  if (loop->turn(Duration{0})) return pace.worked(now, now);
  const shard::Pace::Sleep sleep = pace.sleep(now, next_deadline(), polls());
  if (sleep.longest == Duration{0}) return;
  // The loop does not ask the kernel in each turn, but always before it sleeps: a posted task is seen then.
  if (hca != nullptr && loop->turn(Duration{1})) return pace.worked(now, now);
  if (siblings != nullptr && !siblings->may_sleep()) return;
  sleeps = true;
  ++tally.sleeps;
  if (sleep.timed_look) looks_at = now + sleep.longest;
}

// What a turn finds in mapped doorbells, nobody had to announce.
void HostShards::Shard::verify_sleep(Instant now) {
  if (!sleeps || now < away_until || can_turn(now)) return;
  const std::uint64_t before = tally.heard();
  turn(now);
  require(tally.heard() == before && (sleeps || polls()),
          "shard " + std::to_string(number.value) + " has slept while it had something to do");
}

// --- All shards ---

HostShards::Tally& HostShards::Tally::operator+=(const Tally& other) {
  messages += other.messages;
  sleeps += other.sleeps;
  bells += other.bells;
  rooms += other.rooms;
  restored += other.restored;
  revoked += other.revoked;
  lost += other.lost;
  by_hca += other.by_hca;
  fetched += other.fetched;
  return *this;
}

HostShards::HostShards(std::uint64_t seed, std::uint32_t shards, const Clock& clock,
                       std::optional<Outside> outside)
    : clock_(clock), outside_(outside), random_(~seed), gids_(shards) {
  if (shards > 1) rings_ = must(transport::siblings::HostRings::create(shards));
  for (std::uint32_t i = 0; i < shards; ++i) shards_.push_back(std::make_unique<Shard>(*this, i, shards));
  gids_.set_tell([this](transport::ShardNumber from, transport::SegmentId segment,
                        fabric::HostGids::PortNumber port) { tell(from, segment, port); });
}

HostShards::~HostShards() = default;

void HostShards::tell(transport::ShardNumber from, transport::SegmentId segment,
                      fabric::HostGids::PortNumber port) {
  for (const auto& each : shards_) {
    if (each->number == from) continue;
    each->tasks.emplace_back([this, shard = each.get(), from, segment, port] {
      shard->fabric.on_works_again(from, segment, port, clock_.now());
    });
  }
}

fabric::Switch& HostShards::segment(std::uint32_t shard) {
  return shards_[shard]->fabric.segment(kSegment);
}

transport::HostId HostShards::id_of(std::uint32_t shard) const {
  return LaneNetwork::id_of(outside_->first_shard + shard);
}

// Like pvrdmad: to the transports first, then to the fabric.
void HostShards::set_view(const fabric::View& view) {
  std::set<transport::HostId> peers;
  for (const fabric::RemoteHost& other : view.hosts) {
    if (other.path != fabric::PathKind::kNone) peers.insert(other.id);
  }
  for (std::uint32_t i = 0; i < count(); ++i) {
    shards_[i]->tasks.emplace_back([this, i, view, peers] {
      outside_->lanes.configure(id_of(i), peers, clock_.now());
      if (shards_[i]->hca != nullptr) shards_[i]->hca->configure(view);
      shards_[i]->fabric.set_view(view);
    });
  }
}

bool HostShards::has_view(const fabric::View& view) const {
  return std::ranges::all_of(shards_, [&](const auto& each) {
    return each->fabric.view() == view &&
           std::ranges::all_of(view.hosts, [&](const auto& other) { return each->tcp->is_up(other.id); });
  });
}

void HostShards::want_pipes() {
  for (const auto& each : shards_) {
    if (each->hca == nullptr) continue;
    each->hca->prepare(each->fabric.view());
    each->sleeps = false;
  }
}

void HostShards::run(std::uint32_t shard, std::uint32_t vm, device::Adapter& adapter) {
  shards_[shard]->running.try_emplace(vm, *shards_[shard]->loop, adapter);
  wake(shard);
}

void HostShards::end(std::uint32_t shard, std::uint32_t vm) {
  shards_[shard]->running.erase(vm);
  wake(shard);
}

void HostShards::hold(std::uint32_t shard, Duration time) {
  shards_[shard]->away_until = std::max(shards_[shard]->away_until, clock_.now() + time);
}

void HostShards::bring_back() {
  for (const auto& each : shards_) each->away_until = {};
}

bool HostShards::turn() {
  const Instant now = clock_.now();
  std::vector<std::uint32_t> able;
  for (std::uint32_t i = 0; i < count(); ++i) {
    if (shards_[i]->can_turn(now)) able.push_back(i);
  }
  if (able.empty()) return false;
  const std::uint32_t next = able[random_.below(static_cast<std::uint32_t>(able.size()))];
  if (random_.chance(weather.late_per_mille)) {
    hold(next, random_.up_to(weather.late_max));
  } else {
    shards_[next]->turn(now);
  }
  return true;
}

void HostShards::verify_sleepers() {
  for (const auto& each : shards_) each->verify_sleep(clock_.now());
}

Instant HostShards::next_event() const {
  const Instant now = clock_.now();
  Instant next = Instant::never();
  for (const auto& each : shards_) {
    const Instant due =
        each->away_until > now ? each->away_until : std::min(each->next_deadline(), each->looks_at);
    next = std::min(next, due);
  }
  return next;
}

HostShards::Tally HostShards::tally() const {
  Tally sum;
  for (const auto& each : shards_) {
    sum += each->tally;
    if (each->hca != nullptr) {
      sum.by_hca += each->hca->messages();
      sum.fetched += each->hca->fetched();
    }
    if (each->siblings == nullptr) continue;
    sum.revoked += each->siblings->ring_counters().revoked;
    sum.lost += each->siblings->ring_counters().lost;
  }
  return sum;
}

}  // namespace pvrdma::sim
