#include "transport/tcp/dialled_lane.h"

#include <algorithm>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <new>
#include <utility>

#include "transport/tcp/plain_stream.h"
#include "transport/tcp/sockets.h"
#include "transport/tcp/tls_stream.h"

namespace pvrdma::transport::tcp {

DialledLane::DialledLane(TcpShared& shared, std::uint16_t index) : shared_(shared), index_(index) {}

void DialledLane::dial(const TcpPeer& peer, Instant now) {
  peer_ = peer;
  pause_ = kRedialFirst;
  redial_at_ = now;
  shared_.attention = true;
}

// A peer can cause this as often as it may enter (entry_shares.h).
void DialledLane::dial_soon(Instant now) {
  if (!peer_ || socket_ || redial_at_ <= now) return;
  redial_at_ = now;
  shared_.attention = true;
}

void DialledLane::rest(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  peer_.reset();
  peer_stops_ = false;
  redial_at_ = Instant::never();
  trouble_.clear();
  drop_held();
  if (socket_) socket_->close(reason, sentence, now);
}

void DialledLane::rest_unneeded(Instant now) {
  rest(wire::GoodbyeReason::kReconfigured, "no adapter has used it for a minute", now);
  was_unneeded_ = true;
}

bool DialledLane::has_room(std::uint32_t payload_bytes) const {
  return is_up() && socket_->has_room(payload_bytes);
}

bool DialledLane::takes_datagrams(Instant now) const {
  return !is_up() || socket_->takes_datagrams(now);
}

void DialledLane::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                       Instant now) {
  if (is_up()) socket_->send(segment, request, payload, now);
}

bool DialledLane::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                       Instant now) {
  if (is_up()) return socket_->send(segment, datagram, payload, now);
  return trouble_.empty() && held_.add(segment, datagram, payload);
}

DialledLane::News DialledLane::turn(Instant now) {
  if (socket_ && socket_->broken()) {
    const std::unique_ptr<FrameSocket> ended = std::move(socket_);
    peer_stops_ |= ended->peer_stops();
    if (peer_ && redial_at_ == Instant::never()) failed(ended->trouble(), now);
  }
  if (!socket_ && now >= redial_at_) try_dial(now);
  return std::exchange(news_, News{});
}

void DialledLane::failed(std::string_view trouble, Instant now) {
  // If a peer lets this host in and then closes, the pause still grows.
  if (up_since_ != Instant::never() && now - up_since_ >= kRedialMax) pause_ = kRedialFirst;
  up_since_ = Instant::never();
  redial_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kRedialMax);
  shared_.check_at(redial_at_);
  drop_held();
  try {
    trouble_ = trouble;
  } catch (const std::bad_alloc&) {
    trouble_ = "no memory";  // short enough for std::string to allocate nothing
  }
}

void DialledLane::try_dial(Instant now) {
  try {
    dial_now(now);
  } catch (const std::bad_alloc&) {
    socket_.reset();
    failed("no memory", now);
  }
}

void DialledLane::dial_now(Instant now) {
  redial_at_ = Instant::never();
  auto socket =
      begin_connect(*shared_.settings.address, peer_->address, peer_->port, shared_.congestion_control);
  if (!socket) {
    failed(socket.error().message, now);
    return;
  }
  std::unique_ptr<Stream> stream;
  if (shared_.options.tls) {
    auto secure = shared_.options.tls->client(*std::move(socket));
    if (!secure) {
      failed(secure.error().message, now);
      return;
    }
    stream = make_tls_stream(*std::move(secure));
  } else {
    stream = make_plain_stream(*std::move(socket));
  }
  User& self = *this;
  socket_ = std::make_unique<FrameSocket>(shared_, self, FrameSocket::Role::kDialler, std::move(stream));
  if (auto started = socket_->start(now); !started) {
    socket_.reset();
    failed(started.error().message, now);
  }
}

void DialledLane::on_secured(Instant now) {
  if (!socket_->stream().peer_is(peer_->name)) {
    ++shared_.errors.tls_failures;
    socket_->drop(fmt::format("the certificate there is for {} and not for host {}",
                              fmt::join(socket_->stream().peer_names(), ", "), peer_->name));
    return;
  }
  id_ = random_id();
  socket_->greet(wire::Hello{.host = wire::HostName(shared_.options.host_name),
                             .lane = index_,
                             .lanes = static_cast<std::uint16_t>(shared_.options.lanes),
                             .id = id_,
                             .shard = peer_->shard,
                             .from_shard = shared_.options.shard},
                 now);
}

void DialledLane::on_greeting(const wire::Frame& frame, Instant now) {
  if (const auto* welcome = std::get_if<wire::Welcome>(&frame.body)) on_welcome(*welcome, now);
  if (const auto* reject = std::get_if<wire::Reject>(&frame.body)) on_reject(*reject);
}

void DialledLane::on_welcome(const wire::Welcome& welcome, Instant now) {
  if (welcome.host.view() != peer_->name) {
    ++shared_.errors.unknown_hosts;
    socket_->drop(fmt::format("the host there is {} and not {}", welcome.host.view(), peer_->name));
    return;
  }
  if (welcome.id != id_) {
    ++shared_.errors.bad_sequence;
    socket_->drop("its welcome is for another connection");
    return;
  }
  socket_->establish(peer_->id, now);
  up_since_ = now;
  trouble_.clear();
  news_.ready = true;
  if (was_up_) {
    news_.restored = true;
    if (!was_unneeded_) ++reconnects_;
  }
  was_up_ = true;
  was_unneeded_ = false;
  peer_stops_ = false;
  shared_.attention = true;
  held_.release([&](SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload) {
    if (!socket_->send(segment, datagram, payload, now)) ++shared_.errors.datagrams_dropped;
  });
}

void DialledLane::on_reject(const wire::Reject& reject) {
  if (reject.reason == wire::RejectReason::kWrongVersion) ++shared_.errors.wrong_version;
  socket_->drop(fmt::format("the host there refused: {}", reject.sentence.view()));
}

void DialledLane::on_drained() {
  news_.ready = true;
  shared_.attention = true;
}

void DialledLane::on_time(Instant now) {
  if (socket_) socket_->on_time(now);
  if (!socket_ && now >= redial_at_) shared_.attention = true;
}

Instant DialledLane::next_deadline() const {
  return socket_ ? socket_->next_deadline() : redial_at_;
}

}  // namespace pvrdma::transport::tcp
