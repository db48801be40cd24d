#include "transport/tcp/host_lanes.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/events.h"
#include "transport/peer_name.h"

namespace pvrdma::transport::tcp {

HostLanes::HostLanes(TcpShared& shared, HostId id) : shared_(shared), id_(id) {
  for (std::uint32_t i = 0; i < shared.options.lanes; ++i)
    dialled_.push_back(std::make_unique<DialledLane>(shared, static_cast<std::uint16_t>(i)));
}

void HostLanes::configure(const std::optional<TcpPeer>& peer, std::string_view denied, bool anew,
                          Instant now) {
  const bool wanted = peer && denied.empty();
  const bool same = peer == peer_ && !anew;
  peer_ = peer;
  if (peer) peer_name_ = peer_name(peer->name, peer->shard);
  denied_ = denied;
  if (wanted && same && dialling_) return;
  if (!same || !wanted) {
    close(wire::GoodbyeReason::kReconfigured,
          wanted ? "addresses have changed"
          : peer ? denied
                 : "the host is no longer a peer",
          now);
  }
  dial_if_needed(now);
}

std::shared_ptr<HostLanes> HostLanes::use(Instant now) {
  ask_to_dial();
  return demand_.use(*this, now);
}

bool HostLanes::leads_to_first() const {
  return shared_.options.shard == ShardNumber{} && peer_ && peer_->shard == ShardNumber{};
}

void HostLanes::ask_to_dial() {
  if (!dialling_ && may_dial()) shared_.attention = true;
}

bool HostLanes::is_needed(Instant now) const {
  return leads_to_first() || demand_.is_there(now);
}

void HostLanes::dial_if_needed(Instant now) {
  if (dialling_ || !may_dial() || !is_needed(now)) return;
  for (const auto& lane : dialled_) lane->dial(*peer_, now);
  dialling_ = true;
}

void HostLanes::rest_if_idle(Instant now) {
  if (!dialling_) return;
  demand_.look(now);
  if (is_needed(now)) return;
  dialling_ = false;
  for (const auto& lane : dialled_) lane->rest_unneeded(now);
  shared_.attention = true;
}

void HostLanes::close(wire::GoodbyeReason reason, std::string_view sentence, Instant now) {
  dialling_ = false;
  for (const auto& lane : dialled_) lane->rest(reason, sentence, now);
  for (const auto& lane : accepted_)
    if (lane) lane->socket().close(reason, sentence, now);
  shared_.attention = true;
}

void HostLanes::make_room(std::uint16_t lanes) {
  accepted_.reserve(lanes);
  leaving_.reserve(leaving_.size() + accepted_.size());
}

void HostLanes::adopt(std::unique_ptr<AcceptedLane> lane, std::uint16_t lanes, Instant now) {
  const std::size_t index = lane->index();
  if (accepted_.size() != lanes) {
    // The peer has a new number of lanes, so all old lanes are obsolete.
    for (auto& old : accepted_) {
      if (!old) continue;
      old->socket().close(wire::GoodbyeReason::kReplaced, "a newer connection has taken this lane", now);
      leaving_.push_back(std::move(old));
    }
    accepted_.resize(lanes);
  }
  if (auto& old = accepted_[index]; old) {
    old->socket().close(wire::GoodbyeReason::kReplaced, "a newer connection has taken this lane", now);
    leaving_.push_back(std::move(old));
  }
  accepted_[index] = std::move(lane);
  for (const auto& own : dialled_) own->dial_soon(now);
}

bool HostLanes::is_up() const {
  return std::any_of(dialled_.begin(), dialled_.end(), [](const auto& lane) { return lane->is_up(); });
}

bool HostLanes::is_stopping() const {
  return !is_up() &&
         std::any_of(dialled_.begin(), dialled_.end(), [](const auto& lane) { return lane->peer_stops(); });
}

bool HostLanes::is_opening() const {
  if (is_up() || !may_dial()) return false;
  if (!dialling_) return demand_.is_used();  // the next turn dials
  return std::ranges::any_of(dialled_, [](const auto& lane) { return lane->is_opening(); });
}

// No dialled lane hears anything. Dialled lanes are enough, because their answers come back on them.
bool HostLanes::is_quiet() const {
  return is_up() && std::all_of(dialled_.begin(), dialled_.end(),
                                [](const auto& lane) { return !lane->is_up() || lane->is_quiet(); });
}

std::string HostLanes::trouble() const {
  if (!is_up()) return may_dial() && !dialling_ ? std::string() : std::string(Transport::kNotConnected);
  return is_quiet() ? "nothing is heard from it now" : "";
}

TcpPeerState HostLanes::state() const {
  TcpPeerState state{.trouble = denied_};
  if (peer_) {
    state.name = peer_->name;
    state.shard = peer_->shard;
  }
  for (const auto& lane : dialled_) {
    if (lane->is_up()) ++state.lanes_up;
    if (state.trouble.empty()) state.trouble = lane->trouble();
    state.reconnects += lane->reconnects();
  }
  for (const auto& lane : accepted_)
    if (lane && lane->socket().is_up()) ++state.sessions_up;
  return state;
}

void HostLanes::send(std::uint64_t hash, SegmentId segment, const verbs::Response& response,
                     const guestmem::SpanList& payload, Instant now) {
  AcceptedLane* lane = accepted_.empty() ? nullptr : accepted_[hash % accepted_.size()].get();
  const bool sent =
      lane != nullptr && lane->socket().is_up() && lane->socket().send(segment, response, payload, now);
  if (!sent) ++shared_.errors.responses_dropped;
}

bool HostLanes::send(std::uint64_t hash, SegmentId segment, const verbs::Datagram& datagram,
                     const guestmem::SpanList& payload, Instant now) {
  demand_.need(now);
  ask_to_dial();
  DialledLane& lane = dialled(hash);
  if (!may_dial() || !lane.send(segment, datagram, payload, now)) ++shared_.errors.datagrams_dropped;
  return lane.takes_datagrams(now);
}

void HostLanes::turn(Instant now) {
  bury_lanes(now);
  dial_if_needed(now);
  for (const auto& lane : dialled_) {
    const DialledLane::News news = lane->turn(now);
    untold_.ready |= news.ready;
    untold_.restored |= news.restored;
  }
  if (const bool up = is_up(); up != told_up_) {
    shared_.inbound.on_up_changed(id_, now);
    told_up_ = up;
    if (up) {
      noted_.clear();
      report_connected();
    }
  }
  for (const auto& lane : dialled_)
    if (!lane->trouble().empty()) note(lane->trouble(), now);
  const DialledLane::News news = std::exchange(untold_, {});
  if (news.restored) shared_.inbound.on_restored(id_, now);
  if (news.ready) shared_.inbound.on_ready(id_, now);
}

// Other lanes than those between the first shards come and go as they are needed.
void HostLanes::report_connected() const {
  const log::Level level = leads_to_first() ? log::Level::kInfo : log::Level::kDebug;
  if (!log::enabled(level)) return;
  const std::string line =
      fmt::format("{}: connected to {} at {}, {}", shared_.log_name, peer_name_, peer_->address.to_string(),
                  shared_.options.tls ? "TLS 1.3" : "not encrypted");
  log::write(level, line);
}

void HostLanes::bury_lanes(Instant now) {
  leaving_.reserve(leaving_.size() + accepted_.size());
  for (auto& lane : accepted_)
    if (lane && lane->socket().broken()) leaving_.push_back(std::move(lane));
  for (const auto& lane : leaving_) {
    const FrameSocket& socket = lane->socket();
    if (!socket.ended_in_order() && limiter_.allow(now)) {
      log::warn("{}: lane {} of {} ended: {}", shared_.log_name, lane->index(), peer_name_, socket.trouble());
    }
  }
  leaving_.clear();
}

// Logs one line for all lanes, and does not repeat the same trouble.
void HostLanes::note(const std::string& trouble, Instant now) {
  if (trouble == noted_ || !limiter_.allow(now)) return;
  noted_ = trouble;
  log::warn("{}: {} to {} at {} port {}: {}; trying again", shared_.log_name,
            told_up_ ? "not all connections" : "no connection", peer_name_, peer_->address.to_string(),
            peer_->port, trouble);
}

void HostLanes::on_time(Instant now) {
  rest_if_idle(now);
  for (const auto& lane : dialled_) lane->on_time(now);
  for (const auto& lane : accepted_)
    if (lane) lane->socket().on_time(now);
  tell_if_quiet(now);
}

// The end of the silence is told, too, unless the lanes broke meanwhile: turn() tells that. Of all shards of
// two hosts, only the first ones tell, because a network that is interrupted concerns all lanes.
void HostLanes::tell_if_quiet(Instant now) {
  if (!leads_to_first()) return;
  const bool quiet = is_quiet();
  if (quiet == told_quiet_) return;
  if (!is_up()) {
    told_quiet_ = false;
    return;
  }
  if (!limiter_.allow(now)) return;
  told_quiet_ = quiet;
  const events::Subject subject{events::Type::kPath, events::Kind::kHost, peer_->name};
  if (quiet) {
    events::tell(log::Level::kWarn, subject,
                 "path to {}: no byte has come from it for {:.2f} s: its network or this host's is "
                 "interrupted, or its daemon does not run",
                 peer_name_, std::chrono::duration<double>(kQuietTime).count());
  } else {
    events::tell(log::Level::kInfo, subject, "path to {}: it is heard again", peer_name_);
  }
}

Instant HostLanes::next_deadline() const {
  Instant next = Instant::never();
  for (const auto& lane : dialled_) next = std::min(next, lane->next_deadline());
  for (const auto& lane : accepted_)
    if (lane) next = std::min(next, lane->socket().next_deadline());
  return next;
}

}  // namespace pvrdma::transport::tcp
