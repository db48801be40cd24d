// Tcp: the path between hosts over TCP, plain or TLS 1.3: one transport for all hosts, driven by a shard's
// loop.
//
// Each host dials a fixed number of lanes (TCP connections) to each peer and sends its own requests and
// datagrams there. Answers come back on the same lane. So answers never wait behind the host's own requests.
// A host may leave a lane with waiting requests unread, so that TCP holds the peer back, without the danger
// of a deadlock. All messages of a connection (QP pair) travel on one lane, chosen by hash, in order.
//
// A host of several shards has a Tcp for each. Each shard of another host is a peer of its own, with lanes of
// its own, which are dialled when they are needed (host_lanes.h). Only shard 0 listens. It passes an accepted
// lane on to the shard that its Hello wants (passed_lane.h), before the Welcome.
//
// A signature for a TLS handshake takes up to milliseconds, so each turn does only one step of one handshake.
//
// A broken lane is dialled again with growing pauses (at most kRedialMax), or as soon as a lane of the peer
// enters. Inbound::on_restored() then makes the engines repeat unanswered requests. Nothing of a connection's
// payload is kept here: the engines guarantee exactly-once (ADR 8).
//
// Thread: shard-owned; create() before the loop runs.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/ip_address.h"
#include "base/result.h"
#include "base/time.h"
#include "shard/loop.h"
#include "tls/context.h"
#include "transport/tcp/tcp_state.h"
#include "transport/transport.h"

namespace pvrdma::transport {

namespace tcp {
class PassedLane;
class Stream;
}  // namespace tcp

inline constexpr std::uint16_t kTcpPort = 28250;

// Takes a connection that a peer made for another purpose than messages (tcp/call.h). It runs on the shard,
// so it must not block. Without memory (bad_alloc) the connection ends.
using TakeCall = std::function<void(std::unique_ptr<tcp::Stream> stream, std::string peer)>;

// Takes a lane of a peer to another shard of this host, whose Tcp::take() gets it there. It runs on shard 0,
// so it must not block. False: there is no such shard, or it takes none now. The lane may be destroyed on any
// thread. Without memory (bad_alloc) the connection ends.
using PassLane = std::function<bool(ShardNumber to, std::unique_ptr<tcp::PassedLane> lane)>;

struct TcpOptions {
  std::string host_name;     // this host's, 1 to 64 characters
  ShardNumber shard{};       // this one's; only 0 listens and takes calls
  std::uint32_t shards = 1;  // of this host
  std::uint32_t lanes = 4;   // to each peer
  // A name of the kernel's. Empty: cubic, or the kernel's default if this process may not use cubic.
  std::optional<std::string> congestion_control;
  // Null: plain. Otherwise a mutual context, which all shards may share. A peer's certificate must be signed
  // by its authority, be valid now, and name its host (subjectAltName DNS, or else the common name).
  std::shared_ptr<pvrdma::tls::Context> tls;
  TakeCall take_call;  // empty: calls are refused
  PassLane pass_lane;  // empty: this host has one shard
};

// A shard of another host.
struct TcpPeer {
  HostId id;  // of this shard of the host: each has its own
  std::string name;
  IpAddress address;
  std::uint16_t port = kTcpPort;
  ShardNumber shard{};
  friend bool operator==(const TcpPeer&, const TcpPeer&) = default;
};

// What is allowed now. Every change takes effect at once: connections that are no longer allowed are closed,
// and wanted ones are dialled.
struct TcpSettings {
  std::optional<IpAddress> address;  // of the tagged vmknic; empty: no listening, no connecting
  std::uint16_t port = kTcpPort;
  bool allow_all = true;
  std::vector<IpNetwork> allowed;  // used if allow_all is false, in both directions
  std::vector<TcpPeer> peers;      // only these are dialled and let in
  friend bool operator==(const TcpSettings&, const TcpSettings&) = default;
};

// Errors by reason. pvrdmad's metrics (group "tcp") show each number.
struct TcpErrors {
  std::uint64_t bad_frames = 0;    // garbage, oversized, unknown kinds
  std::uint64_t bad_sequence = 0;  // replayed or reordered frames
  std::uint64_t wrong_version = 0;
  std::uint64_t unknown_hosts = 0;  // from an address or host that is not a peer's
  std::uint64_t not_allowed = 0;    // the ruleset does not allow the address
  // Too many connections of one address wanted a handshake, or the wanted shard took none.
  std::uint64_t no_room = 0;
  std::uint64_t tls_failures = 0;
  std::uint64_t silent_peers = 0;       // the keep-alive time was exceeded
  std::uint64_t foreign_sources = 0;    // Delivery::kForeignSource
  std::uint64_t unknown_gids = 0;       // Delivery::kUnknownGid
  std::uint64_t datagrams_dropped = 0;  // the lane was busy
  std::uint64_t responses_dropped = 0;  // the peer's lane was gone, or the peer does not read
};

class Tcp final : public Transport {
 public:
  // All references are borrowed and outlive the Tcp. Error: this process may not use
  // options.congestion_control.
  static Result<std::unique_ptr<Tcp>> create(const TcpOptions& options, shard::Loop& loop, const Clock& clock,
                                             Inbound& inbound);
  ~Tcp() override;

  void configure(const TcpSettings& settings);
  // Lets a lane in that shard 0 has passed to this shard, or sends Reject.
  void take(std::unique_ptr<tcp::PassedLane> lane);

  PathKind kind() const override { return PathKind::kTcp; }
  const Counters& counters() const override;
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override;
  bool is_stopping(HostId host) const override;
  bool is_opening(HostId host) const override;
  std::string trouble(HostId host) const override;
  void flush(Instant now) override;

  const TcpErrors& errors() const;
  std::vector<TcpPeerState> peers() const;
  const std::string& congestion_control() const;  // the one that all connections use
  bool listening() const;
  std::string listen_trouble() const;  // why it does not listen although it should; otherwise empty
  TcpState state() const { return {listening(), listen_trouble(), peers()}; }

 private:
  struct Impl;
  explicit Tcp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::transport
