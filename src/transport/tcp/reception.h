// Reception: lets peers in: owns the listener and the connections that have not said hello yet, and holds the
// rules of who may enter.
//
// A connection enters when its source address is allowed and a peer's, its hello names the peer of the
// settings that has this address, and, with TLS, its certificate names that host. Everybody else is told why
// not, logged and counted.
//
// A handshake costs milliseconds, so nobody gets one whose address is no peer's, and a peer's address has a
// share of its own (entry_shares.h).
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

// Of one address, connections that have not said hello: all lanes of a peer, and what they replace.
inline constexpr std::uint32_t kStrangersMin = 8;

class Reception final : private AcceptedLane::Porter {
 public:
  // The lanes of a peer that may enter; null: no peer is called so.
  using FindPeer = std::function<HostLanes*(std::string_view host_name)>;

  // `shared` is borrowed and outlives this.
  Reception(TcpShared& shared, FindPeer find_peer);
  ~Reception() override;

  Listener& listener() { return listener_; }
  const Listener& listener() const { return listener_; }

  // Those who have not entered have to knock again.
  void send_all_away(wire::GoodbyeReason reason, std::string_view sentence, Instant now);

  void turn(Instant now);
  void on_time(Instant now);
  // Of those who have not entered; the listener has its own.
  Instant next_deadline() const;

 private:
  void on_accepted(Fd socket, const IpAddress& from);
  // Empty: it may try. Otherwise the sentence, with `reason` set and the error counted.
  std::string objection(const IpAddress& from, wire::RejectReason& reason, Instant now);
  // The connection has its place in shares_. Without memory (bad_alloc) it is no stranger.
  void take_in(Fd socket, const IpAddress& from, Instant now);
  static void report(const AcceptedLane& stranger);
  void turn_away(const Fd& socket, wire::RejectReason reason, const IpAddress& from,
                 std::string_view sentence, Instant now);
  void on_hello(AcceptedLane& lane, const wire::Hello& hello, Instant now) override;
  // The same, of entering.
  std::string objection(const AcceptedLane& lane, const wire::Hello& hello, const HostLanes* peer,
                        wire::RejectReason& reason);

  TcpShared& shared_;
  const FindPeer find_peer_;
  EntryShares shares_;
  std::vector<std::unique_ptr<AcceptedLane>> strangers_;  // each has its place in shares_
  log::LogLimiter limiter_{16, std::chrono::seconds(5)};
  Listener listener_;
};

}  // namespace pvrdma::transport::tcp
