#include "transport/tcp/link.h"

#include <algorithm>
#include <utility>

#include "transport/tcp/lane_hash.h"

namespace pvrdma::transport::tcp {

Link::Link(Context& context, HostId id) : context_(context), id_(id) {
  for (std::uint32_t i = 0; i < context.options.lanes; ++i)
    lanes_.push_back(std::make_unique<Lane>(context, static_cast<std::uint16_t>(i)));
}

void Link::configure(const std::optional<TcpPeer>& peer, std::string_view denied, bool anew, Instant now) {
  const bool wanted = peer && denied.empty();
  const bool same = peer == peer_ && !anew;
  peer_ = peer;
  denied_ = denied;
  if (wanted && same && dialling_) return;
  if (!same || !wanted) {
    close(GoodbyeReason::kReconfigured,
          wanted ? "addresses have changed"
          : peer ? denied
                 : "the host is no peer any more",
          now);
  }
  dialling_ = wanted;
  if (!wanted) return;
  for (const auto& lane : lanes_) lane->dial(*peer_, now);
}

void Link::close(GoodbyeReason reason, std::string_view sentence, Instant now) {
  dialling_ = false;
  for (const auto& lane : lanes_) lane->rest(reason, sentence, now);
  for (const auto& session : sessions_)
    if (session) session->connection().close(reason, sentence, now);
  context_.attention = true;
}

void Link::adopt(std::unique_ptr<Session> session, std::uint16_t lanes, Instant now) {
  const std::size_t index = session->lane();
  if (sessions_.size() != lanes) {
    // The peer has another number of lanes than before: none of the old ones is where it was.
    for (auto& old : sessions_) {
      if (!old) continue;
      old->connection().close(GoodbyeReason::kReplaced, "a newer connection has taken this lane", now);
      leaving_.push_back(std::move(old));
    }
    sessions_.resize(lanes);
  }
  if (auto& old = sessions_[index]; old) {
    old->connection().close(GoodbyeReason::kReplaced, "a newer connection has taken this lane", now);
    leaving_.push_back(std::move(old));
  }
  sessions_[index] = std::move(session);
}

bool Link::is_up() const {
  return std::any_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->is_up(); });
}

TcpPeerState Link::state() const {
  TcpPeerState state{.id = id_, .name = peer_ ? peer_->name : std::string(), .trouble = denied_};
  for (const auto& lane : lanes_) {
    if (lane->is_up()) ++state.lanes_up;
    if (state.trouble.empty()) state.trouble = lane->trouble();
    state.reconnects += lane->reconnects();
  }
  for (const auto& session : sessions_)
    if (session && session->connection().is_up()) ++state.sessions_up;
  return state;
}

verbs::Sent Link::send(SegmentId segment, const verbs::Request& request, const guestmem::SpanList& payload,
                       Instant now) {
  const std::uint32_t lane = lane_of(request.from, request.to, context_.options.lanes);
  return lanes_[lane]->send(segment, request, payload, now);
}

void Link::send(SegmentId segment, const verbs::Response& response, const guestmem::SpanList& payload,
                Instant now) {
  bool sent = false;
  if (!sessions_.empty()) {
    const std::uint32_t lane =
        lane_of(response.to, response.from, static_cast<std::uint32_t>(sessions_.size()));
    const auto& session = sessions_[lane];
    sent = session && session->connection().is_up() &&
           session->connection().send(segment, response, payload, now);
  }
  if (!sent) ++context_.errors.responses_dropped;
}

void Link::send(SegmentId segment, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                Instant now) {
  const std::uint32_t lane = lane_of(datagram.from, datagram.to, context_.options.lanes);
  if (!lanes_[lane]->send(segment, datagram, payload, now)) ++context_.errors.datagrams_dropped;
}

void Link::turn(Instant now) {
  bury_sessions(now);
  bool ready = false;
  bool restored = false;
  for (const auto& lane : lanes_) {
    const Lane::News news = lane->turn(now);
    ready |= news.ready;
    restored |= news.restored;
  }
  if (const bool up = is_up(); up != told_up_) {
    told_up_ = up;
    if (up) {
      noted_.clear();
      log::info("tcp: connected to host {} at {}, {}", peer_->name, peer_->address.to_string(),
                context_.tls ? "TLS 1.3" : "not encrypted");
    }
    context_.inbound.on_up_changed(id_, now);
  }
  for (const auto& lane : lanes_)
    if (!lane->trouble().empty()) note(lane->trouble(), now);
  if (restored) context_.inbound.on_restored(id_, now);
  if (ready) context_.inbound.on_ready(id_, now);
}

void Link::bury_sessions(Instant now) {
  for (auto& session : sessions_)
    if (session && session->connection().broken()) leaving_.push_back(std::move(session));
  for (const auto& session : leaving_) {
    const Connection& connection = session->connection();
    if (!connection.ended_in_order() && limiter_.allow(now)) {
      log::warn("tcp: lane {} of host {} ended: {}", session->lane(),
                peer_ ? peer_->name : std::string("(gone)"), connection.trouble());
    }
  }
  leaving_.clear();
}

// One line for all lanes, and none for the same trouble again.
void Link::note(const std::string& trouble, Instant now) {
  if (trouble == noted_ || !limiter_.allow(now)) return;
  noted_ = trouble;
  log::warn("tcp: {} to host {} at {} port {}: {}; trying again",
            told_up_ ? "not all connections" : "no connection", peer_->name, peer_->address.to_string(),
            peer_->port, trouble);
}

void Link::on_time(Instant now) {
  for (const auto& lane : lanes_) lane->on_time(now);
  for (const auto& session : sessions_)
    if (session) session->connection().on_time(now);
}

Instant Link::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& lane : lanes_) next = std::min(next, lane->next_deadline());
  for (const auto& session : sessions_)
    if (session) next = std::min(next, session->connection().next_deadline());
  return next;
}

}  // namespace pvrdma::transport::tcp
