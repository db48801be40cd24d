#include "transport/tcp/tcp.h"

#include <algorithm>
#include <fmt/core.h>
#include <map>
#include <new>
#include <utility>

#include "base/check.h"
#include "base/log.h"
#include "transport/tcp/host_lanes.h"
#include "transport/tcp/lane_hash.h"
#include "transport/tcp/passed_lane.h"
#include "transport/tcp/reception.h"
#include "transport/tcp/sockets.h"
#include "transport/tcp/tcp_shared.h"
#include "vocabulary/name.h"

namespace pvrdma::transport {

using wire::GoodbyeReason;

namespace {

class TcpPath final : public verbs::Path {
 public:
  TcpPath(std::shared_ptr<tcp::HostLanes> lanes, SegmentId segment, const verbs::Connection& connection,
          Traffic& traffic)
      : lanes_(std::move(lanes)),
        requests_(lanes_->dialled(tcp::lane_hash(connection.local, connection.remote))),
        traffic_(traffic),
        response_hash_(tcp::lane_hash(connection.remote, connection.local)),
        segment_(segment) {}

  std::string trouble() const override {
    if (requests_.is_up()) return {};
    return "this host has no connection to the peer's host" +
           (requests_.trouble().empty() ? "" : ": " + requests_.trouble());
  }
  std::uint32_t room(std::uint32_t wanted, Instant /*now*/) override {
    return requests_.has_room(wanted) ? wanted : 0;
  }
  void send_request(const verbs::Request& request, const guestmem::SpanList& payload, Instant now) override {
    traffic_.count(payload);
    requests_.send(segment_, request, payload, now);
  }
  void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                     Instant now) override {
    traffic_.count(payload);
    lanes_->send(response_hash_, segment_, response, payload, now);
  }

 private:
  const std::shared_ptr<tcp::HostLanes> lanes_;
  tcp::DialledLane& requests_;  // borrowed, like the next
  Traffic& traffic_;
  const std::uint64_t response_hash_;  // of the lane that brought the request: the peer's lane
  const SegmentId segment_;
};

}  // namespace

struct Tcp::Impl final : shard::Pollable {
  Impl(const TcpOptions& options, shard::Loop& loop, const Clock& clock, Inbound& inbound)
      : shared(options, loop, clock, inbound),
        reception(shared, [this](std::string_view name, ShardNumber shard) { return find(name, shard); }) {}

  tcp::HostLanes& lanes(HostId id) {
    auto& entry = hosts[id];
    if (!entry) entry = std::make_unique<tcp::HostLanes>(shared, id);
    return *entry;
  }

  tcp::HostLanes* find(std::string_view name, ShardNumber shard) {
    for (const auto& [id, entry] : hosts)
      if (entry->peer() && entry->peer()->name == name && entry->peer()->shard == shard) return entry.get();
    return nullptr;
  }

  bool run(Instant now) override;
  void on_time(Instant now) override;
  bool polls() const override { return false; }
  std::string what() const override { return "the lanes to other hosts"; }
  // Work that another Pollable caused in this round must not wait for the next descriptor.
  Instant next_deadline() const override {
    if (shared.attention || !shared.unfinished.empty() || !shared.unsecured.empty() ||
        !shared.unflushed.empty())
      return Instant{};
    return std::min(shared.next_check, reception.listener().next_deadline());
  }

  tcp::TcpShared shared;
  std::map<HostId, std::unique_ptr<tcp::HostLanes>> hosts;
  tcp::Reception reception;
  bool is_configured = true;               // false: there was no memory for all of the newest settings
  std::vector<tcp::FrameSocket*> reading;  // used by run(), kept for its memory
};

bool Tcp::Impl::run(Instant now) {
  bool worked = false;
  if (!shared.unfinished.empty()) {
    worked = true;
    reading.swap(shared.unfinished);
    for (tcp::FrameSocket* socket : reading) socket->go_on(now);
    reading.clear();
  }
  if (!shared.unsecured.empty()) {
    worked = true;
    tcp::FrameSocket* const first = shared.unsecured.front();
    shared.unsecured.erase(shared.unsecured.begin());
    first->secure_now(now);
  }
  if (!shared.unflushed.empty()) tcp::flush_all(shared, now);
  if (shared.attention) {
    worked = true;
    shared.attention = false;
    reception.turn(now);
    try {
      for (const auto& [id, entry] : hosts) entry->turn(now);
    } catch (const std::bad_alloc&) {  // the next turn does the rest
      shared.attention = true;
    }
    tcp::flush_all(shared, now);
  }
  return worked;
}

// Between two calls, deadlines only move back; check_at() reports the exceptions.
void Tcp::Impl::on_time(Instant now) {
  shared.next_check = Instant::never();
  try {
    reception.on_time(now);
  } catch (const std::bad_alloc&) {  // for a sentence about the listener
  }
  Instant next = reception.next_deadline();
  for (const auto& [id, entry] : hosts) {
    entry->on_time(now);
    next = std::min(next, entry->next_deadline());
  }
  shared.check_at(next);
}

Result<std::unique_ptr<Tcp>> Tcp::create(const TcpOptions& options, shard::Loop& loop, const Clock& clock,
                                         Inbound& inbound) {
  if (!is_name(options.host_name)) {
    return fail(fmt::format("host name \"{}\" is not a name: it takes {}", options.host_name, kNameRule));
  }
  if (options.lanes == 0 || options.lanes > wire::kLanesMax)
    return fail(
        fmt::format("{} connections to each peer: 1 to {} are possible", options.lanes, wire::kLanesMax));
  auto chosen = tcp::choose_congestion_control(options.congestion_control);
  if (!chosen) return Failure(std::move(chosen).error());
  if (!chosen->warning.empty() && options.shard == ShardNumber{}) log::warn("{}", chosen->warning);
  auto impl = std::make_unique<Impl>(options, loop, clock, inbound);
  impl->shared.congestion_control = std::move(chosen->name);
  loop.add(*impl);
  return std::unique_ptr<Tcp>(new Tcp(std::move(impl)));
}

Tcp::Tcp(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

Tcp::~Tcp() {
  const Instant now = impl_->shared.clock.now();
  for (const auto& [id, lanes] : impl_->hosts)
    lanes->close(wire::GoodbyeReason::kStopping, "the daemon stops", now);
  impl_->shared.loop.remove(*impl_);
}

void Tcp::configure(const TcpSettings& settings) {
  tcp::TcpShared& shared = impl_->shared;
  if (impl_->is_configured && settings == shared.settings) return;
  const Instant now = shared.clock.now();
  const bool again = !std::exchange(impl_->is_configured, false);
  const bool moved = again || settings.address != shared.settings.address;
  const bool listens_elsewhere = moved || settings.port != shared.settings.port;
  shared.settings = settings;

  if (listens_elsewhere) impl_->reception.listener().close();
  impl_->reception.send_all_away(wire::GoodbyeReason::kReconfigured, "the settings have changed", now);
  for (const auto& [host, lanes] : impl_->hosts) {
    const bool stays = std::any_of(settings.peers.begin(), settings.peers.end(),
                                   [id = lanes->id()](const TcpPeer& peer) { return peer.id == id; });
    if (!stays) lanes->configure(std::nullopt, {}, moved, now);
  }
  for (const TcpPeer& peer : settings.peers) {
    std::string denied;
    if (!settings.address) {
      denied = "nothing may connect: tag a vmknic and enable ruleset pvrdma";
    } else if (!shared.is_allowed(peer.address)) {
      denied = fmt::format("address {} is not among the allowed addresses of ruleset pvrdma",
                           peer.address.to_string());
    }
    impl_->lanes(peer.id).configure(peer, denied, moved, now);
  }
  if (listens_elsewhere && settings.address && shared.options.shard == ShardNumber{}) {
    impl_->reception.listener().open(*settings.address, settings.port);
  }
  shared.attention = true;
  impl_->is_configured = true;
}

void Tcp::take(std::unique_ptr<tcp::PassedLane> lane) {
  PVRDMA_CHECK(lane->hello().shard == impl_->shared.options.shard, "a lane came to another shard");
  try {
    impl_->reception.take(*lane);
  } catch (const std::bad_alloc&) {  // the connection ends, and its host dials again
  }
}

const Counters& Tcp::counters() const {
  return impl_->shared.counters;
}

void Tcp::open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
               verbs::PathSlot& slot) {
  slot.open<TcpPath>(impl_->lanes(place.host).use(impl_->shared.clock.now()), place.segment, connection,
                     traffic);
}

bool Tcp::send_datagram(const Place& place, const verbs::Datagram& datagram,
                        const guestmem::SpanList& payload, Traffic& traffic, Instant now) {
  traffic.count(payload);
  return impl_->lanes(place.host)
      .send(tcp::lane_hash(datagram.from, datagram.to), place.segment, datagram, payload, now);
}

bool Tcp::is_up(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  return entry != impl_->hosts.end() && entry->second->is_up();
}

bool Tcp::is_stopping(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  return entry != impl_->hosts.end() && entry->second->is_stopping();
}

bool Tcp::is_opening(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  return entry != impl_->hosts.end() && entry->second->is_opening();
}

std::string Tcp::trouble(HostId host) const {
  const auto entry = impl_->hosts.find(host);
  return entry != impl_->hosts.end() ? entry->second->trouble() : std::string(kNotConnected);
}

void Tcp::flush(Instant now) {
  if (!impl_->shared.in_batch) tcp::flush_all(impl_->shared, now);
}

const TcpErrors& Tcp::errors() const {
  return impl_->shared.errors;
}

std::vector<TcpPeerState> Tcp::peers() const {
  std::vector<TcpPeerState> states;
  for (const auto& [id, lanes] : impl_->hosts)
    if (lanes->peer()) states.push_back(lanes->state());
  return states;
}

const std::string& Tcp::congestion_control() const {
  return impl_->shared.congestion_control;
}

bool Tcp::listening() const {
  return impl_->reception.listener().listening();
}

std::string Tcp::listen_trouble() const {
  return impl_->reception.listener().trouble();
}

}  // namespace pvrdma::transport
