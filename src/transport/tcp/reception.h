// Reception: lets peers in. It owns the listener and the connections that have not said hello yet, and has
// the rules for entering.
//
// A connection enters under these conditions: its source address is allowed and belongs to a peer, its hello
// names the peer that has this address in the settings, and, with TLS, its certificate names that host. All
// others get the reason, and are logged and counted.
//
// A lane for another shard leaves after its hello, and that shard's Reception takes it under the same
// conditions: its settings may be newer or older.
//
// A handshake costs milliseconds. So only the addresses of peers get one, and each such address has its own
// share (entry_shares.h).
//
// Thread: shard-owned.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "transport/tcp/accepted_lane.h"
#include "transport/tcp/entry_shares.h"
#include "transport/tcp/host_lanes.h"
#include "transport/tcp/listener.h"
#include "transport/tcp/passed_lane.h"

namespace pvrdma::transport::tcp {

// How many connections of one address may be waiting before hello, at least. Otherwise all lanes between the
// shards of both hosts, and those that they replace.
inline constexpr std::uint32_t kStrangersMin = 8;

class Reception final : private AcceptedLane::Porter {
 public:
  // The lanes of a peer that may enter; null: there is no such peer.
  using FindPeer = std::function<HostLanes*(std::string_view host_name, ShardNumber shard)>;

  // `shared` is borrowed and outlives this object.
  Reception(TcpShared& shared, FindPeer find_peer);
  ~Reception() override;

  Listener& listener() { return listener_; }
  const Listener& listener() const { return listener_; }

  // Closes the connections that have not entered; their hosts have to dial again.
  void send_all_away(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  // Tcp::take(). Without memory (bad_alloc) the connection ends.
  void take(PassedLane& passed);

  void turn(Instant now);
  void on_time(Instant now);
  // The deadline of the connections that were not admitted yet; the listener has its own.
  Instant next_deadline() const;

 private:
  void on_accepted(Fd socket, const IpAddress& from);
  // Empty: the connection may begin a handshake. Otherwise the reason as a sentence; `reason` is set and the
  // error counted.
  std::string objection(const IpAddress& from, wire::RejectReason& reason, Instant now);
  std::uint32_t share_of(const IpAddress& from) const;
  // The connection already has its place in shares_. Without memory (bad_alloc) it is not added to
  // strangers_.
  AcceptedLane* take_in(Fd socket, const IpAddress& from, Instant now);
  void report(const AcceptedLane& stranger) const;
  void turn_away(const Fd& socket, wire::RejectReason reason, const IpAddress& from,
                 std::string_view sentence, Instant now);
  void on_hello(AcceptedLane& lane, const wire::Hello& hello, Instant now) override;
  void pass_on(AcceptedLane& lane, const wire::Hello& hello, Instant now);
  // Like the other objection(), when the connection has said Hello: may it be admitted?
  std::string objection(const AcceptedLane& lane, const wire::Hello& hello, const HostLanes* peer,
                        wire::RejectReason& reason);

  TcpShared& shared_;
  const FindPeer find_peer_;
  EntryShares shares_;
  std::vector<std::unique_ptr<AcceptedLane>> strangers_;  // each holds a place in shares_
  log::LogLimiter limiter_{16, std::chrono::seconds(5)};
  Listener listener_;
};

}  // namespace pvrdma::transport::tcp
