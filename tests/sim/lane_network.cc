#include "sim/lane_network.h"

#include <algorithm>
#include <utility>

namespace pvrdma::sim {

using transport::HostId;

LaneNetwork::LaneNetwork(std::uint64_t seed, std::uint32_t hosts, std::uint32_t shards) : random_(seed) {
  for (std::uint32_t from = 0; from < hosts * shards; ++from) {
    hosts_[id_of(from)];
    for (std::uint32_t to = 0; to < hosts * shards; ++to) {
      for (std::uint32_t i = 0; from / shards != to / shards && i < kLanes; ++i) {
        lanes_.push_back(Lane{.dialler = id_of(from), .acceptor = id_of(to)});
      }
    }
  }
}

Lane& LaneNetwork::lane(HostId from, HostId to, std::uint64_t hash) {
  const auto first = std::find_if(lanes_.begin(), lanes_.end(),
                                  [&](const Lane& one) { return one.dialler == from && one.acceptor == to; });
  return first[static_cast<std::ptrdiff_t>(hash % kLanes)];
}

// --- Events of lanes ---

void LaneNetwork::attach(HostId host, transport::Inbound& inbound, std::function<void()> wake) {
  at(host) = Host{.inbound = &inbound, .wake = std::move(wake), .peers = {}, .told_up = {}};
}

transport::Inbound& LaneNetwork::inbound(HostId host) {
  at(host).wake();
  return *at(host).inbound;
}

void LaneNetwork::detach(HostId host, Instant now) {
  at(host) = Host{};
  for (Lane& one : lanes_) {
    if (one.dialler != host && one.acceptor != host) continue;
    if (one.stands) break_lane(one, Duration(0), now);
    end_at(one, host, now);
    if (one.dialler == host) one.was_up = one.wanted = false;
  }
  std::erase_if(news_, [host](const auto& entry) { return entry.first.first == host; });
}

void LaneNetwork::configure(HostId host, std::set<HostId> peers, Instant now) {
  at(host).peers = std::move(peers);
  for (Lane& one : lanes_) {
    if (one.dialler != host && one.acceptor != host) continue;
    const HostId other = one.dialler == host ? one.acceptor : one.dialler;
    if (at(host).peers.contains(other)) continue;
    if (one.stands) break_lane(one, Duration(0), now);
    end_at(one, host, now);
  }
}

void LaneNetwork::break_lanes(HostId a, HostId b, bool all, Duration away, Instant now) {
  for (Lane& one : lanes_) {
    if (one.stands && one.joins(a, b) && (all || random_.chance(300))) break_lane(one, away, now);
  }
}

// A part of a message in flight may still arrive, in either direction.
void LaneNetwork::break_lane(Lane& lane, Duration away, Instant now) {
  if (random_.chance(300) && lane.acceptor_up && at(lane.acceptor).inbound != nullptr)
    lane.out.tear(lane.dialler, inbound(lane.acceptor), now);
  if (random_.chance(300) && lane.dialler_up && at(lane.dialler).inbound != nullptr)
    lane.back.tear(lane.acceptor, inbound(lane.dialler), now);
  lane.stands = false;
  lost_ += lane.out.clear() + lane.back.clear();
  lane.welcome_at = Instant::never();
  lane.dialler_learns = now + notice();
  lane.acceptor_learns = now + notice();
  lane.redial_at = lane.dialler_learns + away;
}

// One end notices at once that the lane is gone.
void LaneNetwork::end_at(Lane& lane, HostId host, Instant now) {
  if (host == lane.dialler) {
    lane.dialler_up = false;
    lane.dialler_learns = Instant::never();
    lost_ += lane.out.clear();
    lane.redial_at = now + notice();
  } else {
    lane.acceptor_up = false;
    lane.acceptor_learns = Instant::never();
    lost_ += lane.back.clear();
  }
}

void LaneNetwork::cut(HostId a, HostId b, Instant until, Instant now) {
  cuts_[std::minmax(a, b)] = until;
  break_lanes(a, b, true, Duration(0), now);
}

bool LaneNetwork::is_cut(HostId a, HostId b, Instant now) const {
  const auto it = cuts_.find(std::minmax(a, b));
  return it != cuts_.end() && it->second > now;
}

void LaneNetwork::stall(HostId a, HostId b, Instant until) {
  for (Lane& one : lanes_) {
    if (!one.joins(a, b)) continue;
    one.out.stall(until);
    one.back.stall(until);
  }
}

bool LaneNetwork::lie(HostId liar, Instant now) {
  for (const auto& [to, said] : overheard_) {
    if (to == liar || said.from == liar || !is_up(liar, to)) continue;
    verbs::Request lie = said.request;
    lie.number = lie.number.next();
    lie.op = verbs::RequestOp::kFetchAdd;
    lie.compare_add = random_.next() | 1;
    Lane& one = lane(liar, to, 0);
    if (one.dialler_up) one.out.send(said.segment, lie, {}, arrival(now));
    return true;
  }
  return false;
}

bool LaneNetwork::may_dial(const Lane& lane) const {
  const Host& dialler = hosts_.at(lane.dialler);
  const Host& acceptor = hosts_.at(lane.acceptor);
  return dialler.inbound != nullptr && acceptor.inbound != nullptr && dialler.peers.contains(lane.acceptor) &&
         acceptor.peers.contains(lane.dialler);
}

Instant LaneNetwork::dials_at(const Lane& lane) const {
  const bool down = !lane.stands && !lane.dialler_up && lane.dialler_learns == Instant::never();
  if (!down || !may_dial(lane)) return Instant::never();
  const auto cut = cuts_.find(std::minmax(lane.dialler, lane.acceptor));
  return cut == cuts_.end() ? lane.redial_at : std::max(lane.redial_at, cut->second);
}

// --- Sending ---

bool LaneNetwork::is_up(HostId from, HostId to) const {
  return std::any_of(lanes_.begin(), lanes_.end(), [&](const Lane& one) {
    return one.dialler == from && one.acceptor == to && one.dialler_up;
  });
}

bool LaneNetwork::has_room(HostId from, HostId to, std::uint64_t hash) {
  Lane& one = lane(from, to, hash);
  const bool room = one.dialler_up && one.out.bytes() <= kBusyBytes;
  one.wanted = one.wanted || !room;
  return room;
}

void LaneNetwork::send_out(HostId from, HostId to, std::uint64_t hash, transport::SegmentId segment,
                           const LaneStream::Content& content, const guestmem::SpanList& payload,
                           Instant now) {
  if (const auto* request = std::get_if<verbs::Request>(&content); request != nullptr && request->is_atomic())
    overheard_[to] = {.from = from, .segment = segment, .request = *request};
  Lane& one = lane(from, to, hash);
  const bool is_datagram = std::holds_alternative<verbs::Datagram>(content);
  if (!one.dialler_up || (is_datagram && one.out.bytes() > kBusyBytes)) {
    ++lost_;
  } else {
    one.out.send(segment, content, payload, arrival(now));
  }
}

void LaneNetwork::send_back(HostId from, HostId to, std::uint64_t hash, transport::SegmentId segment,
                            const verbs::Response& response, const guestmem::SpanList& payload, Instant now) {
  Lane& one = lane(to, from, hash);
  if (one.acceptor_up) {
    one.back.send(segment, response, payload, arrival(now));
  } else {
    ++lost_;
  }
}

// --- Time ---

Instant LaneNetwork::next_event(const Lane& lane) const {
  Instant next = std::min({lane.dialler_learns, lane.acceptor_learns, lane.welcome_at, dials_at(lane)});
  if (!lane.stands) return next;
  if (lane.back.bytes() <= kPauseBytes) next = std::min(next, lane.out.next_event());
  return lane.dialler_up ? std::min(next, lane.back.next_event()) : next;
}

Instant LaneNetwork::next_event() const {
  Instant next = Instant::never();
  for (const Lane& one : lanes_) next = std::min(next, next_event(one));
  return next;
}

void LaneNetwork::turn(Lane& lane, News& news, Instant now) {
  if (lane.dialler_learns <= now) {
    const Instant redial_at = lane.redial_at;
    end_at(lane, lane.dialler, now);
    lane.redial_at = redial_at;
  }
  if (lane.acceptor_learns <= now) end_at(lane, lane.acceptor, now);
  if (dials_at(lane) <= now) {  // the acceptor replaces its old connection by the new one
    end_at(lane, lane.acceptor, now);
    lane.stands = lane.acceptor_up = true;
    lane.welcome_at = now + random_.up_to(std::chrono::microseconds(200));
  }
  if (lane.welcome_at <= now) {
    lane.welcome_at = Instant::never();
    lane.dialler_up = true;
    news.ready = true;
    news.restored = news.restored || lane.was_up;
    lane.was_up = true;
  }
  if (lane.wanted && lane.dialler_up && lane.out.bytes() <= kBusyBytes) {
    lane.wanted = false;
    news.ready = true;
  }
}

bool LaneNetwork::deliver(Lane& lane, Instant now) {
  bool any = false;
  while (lane.stands && lane.out.next_event() <= now && lane.back.bytes() <= kPauseBytes) {
    lane.out.deliver(lane.dialler, inbound(lane.acceptor), random_, weather, now);
    any = true;
  }
  while (lane.stands && lane.dialler_up && lane.back.next_event() <= now) {
    lane.back.deliver(lane.acceptor, inbound(lane.dialler), random_, weather, now);
    any = true;
  }
  return any;
}

// In the order of HostLanes::turn(): up or down, then restored, then ready.
void LaneNetwork::tell(Instant now) {
  for (auto& [id, host] : hosts_) {
    if (host.inbound == nullptr) continue;
    for (const auto& [peer, unused] : hosts_) {
      if (peer == id) continue;
      const News news = std::exchange(news_[{id, peer}], News{});
      bool& told = host.told_up[peer];
      if (const bool up = is_up(id, peer); up != told) {
        told = up;
        inbound(id).on_up_changed(peer, now);
      }
      if (news.restored) inbound(id).on_restored(peer, now);
      if (news.ready) inbound(id).on_ready(peer, now);
    }
  }
}

void LaneNetwork::deliver(Instant now) {
  for (bool any = true; any;) {
    any = false;
    const auto first = random_.below(static_cast<std::uint32_t>(lanes_.size()));
    for (std::size_t i = 0; i < lanes_.size(); ++i) {
      Lane& one = lanes_[(first + i) % lanes_.size()];
      turn(one, news_[{one.dialler, one.acceptor}], now);
      any = deliver(one, now) || any;
      turn(one, news_[{one.dialler, one.acceptor}], now);
    }
    tell(now);
  }
}

}  // namespace pvrdma::sim
