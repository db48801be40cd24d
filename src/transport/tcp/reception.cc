#include "transport/tcp/reception.h"

#include <algorithm>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <new>
#include <sys/socket.h>
#include <utility>

#include "transport/tcp/plain_stream.h"
#include "transport/tcp/sockets.h"
#include "transport/tcp/tls_stream.h"

namespace pvrdma::transport::tcp {

Reception::Reception(TcpShared& shared, FindPeer find_peer)
    : shared_(shared),
      find_peer_(std::move(find_peer)),
      listener_(shared.loop, shared.clock,
                [this](Fd socket, const IpAddress& from) { on_accepted(std::move(socket), from); }) {}

Reception::~Reception() = default;

void Reception::on_accepted(Fd socket, const IpAddress& from) {
  const Instant now = shared_.clock.now();
  wire::RejectReason reason{};
  if (const std::string why = objection(from, reason, now); !why.empty()) {
    turn_away(socket, reason, from, why, now);
    return;
  }
  tune(socket, shared_.congestion_control);
  AcceptedLane* lane = nullptr;
  try {
    lane = take_in(std::move(socket), from, now);
  } catch (const std::bad_alloc&) {
  }
  if (lane != nullptr)
    lane->socket().start_or_break(now);
  else
    shares_.leave(from);
}

// Null: it cannot be served. The lane must be in its place before it starts, because it may say hello at
// once.
AcceptedLane* Reception::take_in(Fd socket, const IpAddress& from, Instant now) {
  std::unique_ptr<Stream> stream;
  if (shared_.options.tls) {
    auto secure = shared_.options.tls->server(std::move(socket));
    if (!secure) {
      if (limiter_.allow(now))
        log::warn("tcp: cannot serve {}: {}", from.to_string(), secure.error().message);
      return nullptr;
    }
    stream = make_tls_stream(*std::move(secure));
  } else {
    stream = make_plain_stream(std::move(socket));
  }
  Porter& self = *this;
  return strangers_.emplace_back(std::make_unique<AcceptedLane>(shared_, self, std::move(stream), from))
      .get();
}

std::uint32_t Reception::share_of(const IpAddress& from) const {
  const auto& peers = shared_.settings.peers;
  const auto shards = static_cast<std::uint32_t>(std::ranges::count(peers, from, &TcpPeer::address));
  return std::max(kStrangersMin, 2 * shared_.options.lanes * shards * shared_.options.shards);
}

std::string Reception::objection(const IpAddress& from, wire::RejectReason& reason, Instant now) {
  if (!shared_.is_allowed(from)) {
    ++shared_.errors.not_allowed;
    reason = wire::RejectReason::kNotAllowed;
    return fmt::format("address {} is not among the allowed addresses of ruleset pvrdma on host {}",
                       from.to_string(), shared_.options.host_name);
  }
  if (!shared_.is_peer(from)) {
    ++shared_.errors.unknown_hosts;
    reason = wire::RejectReason::kUnknownHost;
    return fmt::format(
        "host {} knows no host with address {}: add the host to the cluster and tag its vmknic",
        shared_.options.host_name, from.to_string());
  }
  const std::uint32_t share = share_of(from);
  if (!shares_.enter(from, share, now)) {
    ++shared_.errors.no_room;
    reason = wire::RejectReason::kNoRoom;
    return fmt::format(
        "{} connections from {} wait for their handshake or began one within a second: try "
        "again later",
        share, from.to_string());
  }
  return {};
}

// There is no stream yet. With TLS the connection just ends.
void Reception::turn_away(const Fd& socket, wire::RejectReason reason, const IpAddress& from,
                          std::string_view sentence, Instant now) {
  if (!shared_.options.tls) {
    wire::Head buffer;
    const auto head =
        wire::encode(wire::Reject{.reason = reason, .sentence = wire::Sentence(sentence)}, buffer);
    static_cast<void>(::send(socket.get(), head.data(), head.size(), MSG_DONTWAIT | MSG_NOSIGNAL));
    ::shutdown(socket.get(), SHUT_WR);
    std::array<std::byte, 512> unread;  // an unread hello would turn the close into a reset
    static_cast<void>(::recv(socket.get(), unread.data(), unread.size(), MSG_DONTWAIT));
  }
  if (limiter_.allow(now)) log::warn("tcp: refused a connection from {}: {}", from.to_string(), sentence);
}

void Reception::on_hello(AcceptedLane& lane, const wire::Hello& hello, Instant now) {
  HostLanes* peer = find_peer_(hello.host.view(), hello.from_shard);
  wire::RejectReason reason{};
  if (const std::string why = objection(lane, hello, peer, reason); !why.empty()) {
    lane.socket().reject(reason, why, now);
    return;
  }
  if (hello.lane == wire::kCallLane) {
    if (!shared_.options.take_call) {
      lane.socket().reject(wire::RejectReason::kNotAllowed, "this host accepts no calls", now);
    } else if (auto stream = lane.release(hello, now)) {
      shared_.options.take_call(std::move(stream), std::string(hello.host.view()));
    }
    return;
  }
  if (hello.shard != shared_.options.shard) {
    pass_on(lane, hello, now);
    return;
  }
  const auto place = std::find_if(strangers_.begin(), strangers_.end(),
                                  [&](const auto& stranger) { return stranger.get() == &lane; });
  peer->make_room(hello.lanes);  // must not fail from here on: the lane is on the stack
  std::unique_ptr<AcceptedLane> admitted = std::move(*place);
  strangers_.erase(place);
  shares_.leave(lane.from());
  lane.admit(peer->id(), hello, now);
  peer->adopt(std::move(admitted), hello.lanes, now);
}

// The lane that stays behind is broken, so the next turn gives its place back.
void Reception::pass_on(AcceptedLane& lane, const wire::Hello& hello, Instant now) {
  auto stream = lane.socket().release();
  if (!stream) return;
  auto passed = std::make_unique<PassedLane>(std::move(stream), lane.from(), hello, lane.socket().started());
  const PassLane& pass = shared_.options.pass_lane;
  if (pass && pass(hello.shard, std::move(passed))) return;
  ++shared_.errors.no_room;
  if (limiter_.allow(now))
    log::warn("tcp: refused a connection from host {}: shard {} does not exist or takes none now",
              hello.host.view(), hello.shard.value);
}

void Reception::take(PassedLane& passed) {
  const Instant now = shared_.clock.now();
  const wire::Hello& hello = passed.hello();
  Porter& self = *this;
  auto lane = std::make_unique<AcceptedLane>(shared_, self, passed.take_stream(), passed.from());
  FrameSocket& socket = lane->socket();
  if (const auto resumed = socket.resume(now); !resumed) {
    socket.drop(resumed.error().message);
  } else {
    HostLanes* peer = find_peer_(hello.host.view(), hello.from_shard);
    wire::RejectReason reason{};
    std::string why = objection(*lane, hello, peer, reason);
    if (why.empty() && now >= passed.began() + kHandshakeTime) {
      ++shared_.errors.no_room;
      reason = wire::RejectReason::kNoRoom;
      why = fmt::format("shard {} of host {} was too busy to take the connection within 3 seconds",
                        hello.shard.value, shared_.options.host_name);
    }
    if (why.empty()) {
      peer->make_room(hello.lanes);
      lane->admit(peer->id(), hello, now);
      peer->adopt(std::move(lane), hello.lanes, now);
      return;
    }
    socket.reject(reason, why, now);
  }
  if (limiter_.allow(now)) report(*lane);
}

std::string Reception::objection(const AcceptedLane& lane, const wire::Hello& hello, const HostLanes* peer,
                                 wire::RejectReason& reason) {
  const std::string_view name = hello.host.view();
  reason = wire::RejectReason::kUnknownHost;
  if (name == shared_.options.host_name) {
    ++shared_.errors.unknown_hosts;
    return fmt::format("two hosts have the same name: {} is also the name of this host: rename one of them",
                       name);
  }
  if (peer == nullptr) {
    ++shared_.errors.unknown_hosts;
    if (find_peer_(name, ShardNumber{}) != nullptr)
      return fmt::format("host {} knows no shard {} of host {} yet", shared_.options.host_name,
                         hello.from_shard.value, name);
    return fmt::format("host {} knows no host {}: add it to the cluster first", shared_.options.host_name,
                       name);
  }
  if (peer->peer()->address != lane.from()) {
    ++shared_.errors.unknown_hosts;
    return fmt::format("host {} has address {}, not {}", name, peer->peer()->address.to_string(),
                       lane.from().to_string());
  }
  if (!peer->denied().empty()) {
    ++shared_.errors.not_allowed;
    reason = wire::RejectReason::kNotAllowed;
    return fmt::format("on host {}, {}", shared_.options.host_name, peer->denied());
  }
  const Stream& stream = lane.socket().stream();
  if (!stream.peer_is(name)) {
    ++shared_.errors.tls_failures;
    reason = wire::RejectReason::kWrongName;
    return fmt::format("the certificate is for {}, not for host {}", fmt::join(stream.peer_names(), ", "),
                       name);
  }
  return {};
}

void Reception::send_all_away(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  for (const auto& stranger : strangers_) stranger->socket().close(reason, sentence, now);
  shares_.forget_unless([this](const IpAddress& address) { return shared_.is_peer(address); });
}

void Reception::turn(Instant now) {
  std::erase_if(strangers_, [&](const auto& stranger) {
    const FrameSocket& socket = stranger->socket();
    if (!socket.broken()) return false;
    shares_.leave(stranger->from());
    if (!socket.ended_in_order() && limiter_.allow(now)) report(*stranger);
    return true;
  });
}

// Called while strangers_ is iterated, so it must not throw: without memory the line is lost.
void Reception::report(const AcceptedLane& stranger) const {
  try {
    log::warn("{}: a connection from {} was not accepted: {}", shared_.log_name, stranger.from().to_string(),
              stranger.socket().trouble());
  } catch (const std::bad_alloc&) {
  }
}

void Reception::on_time(Instant now) {
  listener_.on_time(now);
  for (const auto& stranger : strangers_) stranger->socket().on_time(now);
}

Instant Reception::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& stranger : strangers_) next = std::min(next, stranger->socket().next_deadline());
  return next;
}

}  // namespace pvrdma::transport::tcp
