// Reception: lets peers in. It owns the listener and the connections that have not said hello yet, and has
// the rules for entering.
//
// A connection enters under these conditions: its source address is allowed and belongs to a peer, its hello
// names the peer that has this address in the settings, and, with TLS, its certificate names that host. All
// others get the reason, and are logged and counted.
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

namespace pvrdma::transport::tcp {

// How many connections of one address may be waiting before hello: all lanes of a peer, and those that they
// replace.
inline constexpr std::uint32_t kStrangersMin = 8;

class Reception final : private AcceptedLane::Porter {
 public:
  // The lanes of a peer that may enter; null: no peer has this name.
  using FindPeer = std::function<HostLanes*(std::string_view host_name)>;

  // `shared` is borrowed and outlives this object.
  Reception(TcpShared& shared, FindPeer find_peer);
  ~Reception() override;

  Listener& listener() { return listener_; }
  const Listener& listener() const { return listener_; }

  // Closes the connections that have not entered; their hosts have to dial again.
  void send_all_away(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  void turn(Instant now);
  void on_time(Instant now);
  // The deadline of the connections that were not admitted yet; the listener has its own.
  Instant next_deadline() const;

 private:
  void on_accepted(Fd socket, const IpAddress& from);
  // Empty: the connection may begin a handshake. Otherwise the reason as a sentence; `reason` is set and the
  // error counted.
  std::string objection(const IpAddress& from, wire::RejectReason& reason, Instant now);
  // The connection already has its place in shares_. Without memory (bad_alloc) it is not added to
  // strangers_.
  AcceptedLane* take_in(Fd socket, const IpAddress& from, Instant now);
  static void report(const AcceptedLane& stranger);
  void turn_away(const Fd& socket, wire::RejectReason reason, const IpAddress& from,
                 std::string_view sentence, Instant now);
  void on_hello(AcceptedLane& lane, const wire::Hello& hello, Instant now) override;
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
