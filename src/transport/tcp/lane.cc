#include "transport/tcp/lane.h"

#include <algorithm>
#include <fmt/core.h>
#include <fmt/ranges.h>
#include <utility>

#include "transport/tcp/plain_stream.h"
#include "transport/tcp/sockets.h"

namespace pvrdma::transport::tcp {

Lane::Lane(Context& context, std::uint16_t index) : context_(context), index_(index) {}

void Lane::dial(const TcpPeer& peer, Instant now) {
  rest(GoodbyeReason::kReconfigured, "the peer's address has changed", now);
  peer_ = peer;
  pause_ = kRedialFirst;
  redial_at_ = now;
  context_.attention = true;
}

void Lane::rest(GoodbyeReason reason, std::string_view sentence, Instant now) {
  peer_.reset();
  redial_at_ = Instant::never();
  trouble_.clear();
  if (connection_) connection_->close(reason, sentence, now);
}

verbs::Sent Lane::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                       Instant now) {
  return is_up() ? connection_->send(segment, request, payload, now) : verbs::Sent::kBusy;
}

bool Lane::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                Instant now) {
  return is_up() && connection_->send(segment, datagram, payload, now);
}

Lane::News Lane::turn(Instant now) {
  if (connection_ && connection_->broken()) {
    const std::unique_ptr<Connection> ended = std::move(connection_);
    if (peer_ && redial_at_ == Instant::never()) failed(ended->trouble(), now);
  }
  if (!connection_ && now >= redial_at_) dial_now(now);
  return std::exchange(news_, News{});
}

void Lane::failed(std::string trouble, Instant now) {
  trouble_ = std::move(trouble);
  // A peer that lets this host in only to throw it out is no reason to hurry.
  if (up_since_ != Instant::never() && now - up_since_ >= kRedialMax) pause_ = kRedialFirst;
  up_since_ = Instant::never();
  redial_at_ = now + pause_;
  pause_ = std::min(2 * pause_, kRedialMax);
  context_.check_at(redial_at_);
}

void Lane::dial_now(Instant now) {
  redial_at_ = Instant::never();
  auto socket = begin_connect(*context_.settings.address, peer_->address, peer_->port,
                              context_.options.congestion_control);
  if (!socket) {
    failed(std::move(socket).error().message, now);
    return;
  }
  std::unique_ptr<Stream> stream;
  if (context_.tls) {
    auto secure = context_.tls->client(*std::move(socket));
    if (!secure) {
      failed(std::move(secure).error().message, now);
      return;
    }
    stream = *std::move(secure);
  } else {
    stream = make_plain_stream(*std::move(socket));
  }
  User& self = *this;
  connection_ = std::make_unique<Connection>(context_, self, Connection::Role::kDialler, std::move(stream));
  if (auto started = connection_->start(now); !started) {
    connection_.reset();
    failed(std::move(started).error().message, now);
  }
}

void Lane::on_secured(Instant now) {
  if (!connection_->stream().peer_is(peer_->name)) {
    ++context_.errors.tls_failures;
    connection_->drop(fmt::format("the certificate there is for {} and not for host {}",
                                  fmt::join(connection_->stream().peer_names(), ", "), peer_->name));
    return;
  }
  id_ = random_id();
  connection_->greet(Hello{.host = HostName(context_.options.host_name),
                           .lane = index_,
                           .lanes = static_cast<std::uint16_t>(context_.options.lanes),
                           .connection = id_},
                     now);
}

void Lane::on_greeting(const Frame& frame, Instant now) {
  if (const auto* welcome = std::get_if<Welcome>(&frame.body)) on_welcome(*welcome, now);
  if (const auto* reject = std::get_if<Reject>(&frame.body)) on_reject(*reject);
}

void Lane::on_welcome(const Welcome& welcome, Instant now) {
  if (welcome.host.view() != peer_->name) {
    ++context_.errors.unknown_hosts;
    connection_->drop(fmt::format("the host there is {} and not {}", welcome.host.view(), peer_->name));
    return;
  }
  if (welcome.connection != id_) {
    ++context_.errors.bad_sequence;
    connection_->drop("its welcome is for another connection");
    return;
  }
  connection_->establish(peer_->id, now);
  up_since_ = now;
  trouble_.clear();
  news_.ready = true;
  if (was_up_) {
    news_.restored = true;
    ++reconnects_;
  }
  was_up_ = true;
  context_.attention = true;
}

void Lane::on_reject(const Reject& reject) {
  if (reject.reason == RejectReason::kWrongVersion) ++context_.errors.wrong_version;
  connection_->drop(fmt::format("the host there refused: {}", reject.sentence.view()));
}

void Lane::on_drained() {
  news_.ready = true;
  context_.attention = true;
}

void Lane::on_time(Instant now) {
  if (connection_) connection_->on_time(now);
  if (!connection_ && now >= redial_at_) context_.attention = true;
}

Instant Lane::next_deadline() const {
  return connection_ ? connection_->next_deadline() : redial_at_;
}

}  // namespace pvrdma::transport::tcp
