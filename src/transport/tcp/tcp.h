// Tcp: the path between hosts over TCP, plain or TLS 1.3: one transport for all hosts, driven by a shard's
// loop.
//
// Each host dials so many lanes, TCP connections, to each peer and sends its own requests and datagrams
// there; answers come back on the same lane. So a host that answers never waits for its own requests, and a
// lane on which requests wait can be left unread (TCP then holds the peer back) without any danger of a
// deadlock. All messages of a connection (QP pair) travel on one lane, chosen by hash, in order.
//
// Signing for a TLS handshake takes up to milliseconds: one step of one handshake is done in a turn.
//
// A lane that breaks is dialled again with growing pauses (at most kRedialMax); Inbound::on_restored() makes
// the engines send again what was not answered. Nothing of a connection's payload is kept here: exactly-once
// is the engines' (ADR 8).
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
#include "transport/transport.h"

namespace pvrdma::transport {

namespace tcp {
class Stream;
}

inline constexpr std::uint16_t kTcpPort = 28250;

// Takes a connection that a peer made for other purposes than messages (tcp/call.h): on the shard, so it does
// not block; where there is no memory (bad_alloc) the connection ends.
using TakeCall = std::function<void(std::unique_ptr<tcp::Stream> stream, std::string peer)>;

struct TcpOptions {
  std::string host_name;  // this host's, 1 to 64 characters
  std::uint32_t lanes = 4;
  std::string congestion_control = "cubic";  // of tcp_available_congestion_control
  // None: plain. A peer's certificate must be signed by `ca`, be valid now, and name its host (subjectAltName
  // DNS, or the common name where there is none).
  std::optional<pvrdma::tls::Files> tls;
  TakeCall take_call;  // none: calls are refused
};

struct TcpPeer {
  HostId id;
  std::string name;
  IpAddress address;
  std::uint16_t port = kTcpPort;
  friend bool operator==(const TcpPeer&, const TcpPeer&) = default;
};

// What may happen now. Anything that changes takes effect at once: connections that are no longer allowed are
// closed, wanted ones are dialled.
struct TcpSettings {
  std::optional<IpAddress> address;  // of the tagged vmknic; none: nothing listens, nothing connects
  std::uint16_t port = kTcpPort;
  bool allow_all = true;
  std::vector<IpNetwork> allowed;  // with !allow_all, both ways
  std::vector<TcpPeer> peers;      // only these are dialled, and only these are let in
  friend bool operator==(const TcpSettings&, const TcpSettings&) = default;
};

struct TcpPeerState {
  HostId id;
  std::string name;
  std::uint32_t lanes_up = 0;     // dialled and standing
  std::uint32_t sessions_up = 0;  // accepted from it and standing
  std::string trouble;            // why a lane is down; empty when none is
  std::uint64_t reconnects = 0;
};

// What went wrong, by reason. Each number is in pvrdmad's metrics (group "tcp").
struct TcpErrors {
  std::uint64_t bad_frames = 0;    // garbage, oversized, unknown kinds
  std::uint64_t bad_sequence = 0;  // replayed or reordered frames
  std::uint64_t wrong_version = 0;
  std::uint64_t unknown_hosts = 0;  // from an address or a host that is no peer's
  std::uint64_t not_allowed = 0;    // by the ruleset's allowed addresses
  std::uint64_t no_room = 0;        // too many of one address wanted a handshake
  std::uint64_t tls_failures = 0;
  std::uint64_t silent_peers = 0;       // keep-alive ran out
  std::uint64_t foreign_sources = 0;    // Delivery::kForeignSource
  std::uint64_t unknown_gids = 0;       // Delivery::kUnknownGid
  std::uint64_t datagrams_dropped = 0;  // the lane was busy
  std::uint64_t responses_dropped = 0;  // the peer's lane was gone, or it does not read
};

class Tcp final : public Transport {
 public:
  // Reads the TLS files. All references are borrowed and outlive this. Error: a TLS file cannot be read or
  // does not fit, with the file's name.
  static Result<std::unique_ptr<Tcp>> create(const TcpOptions& options, shard::Loop& loop, const Clock& clock,
                                             Inbound& inbound);
  ~Tcp() override;

  void configure(const TcpSettings& settings);

  PathKind kind() const override { return PathKind::kTcp; }
  const Counters& counters() const override;
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override;
  void flush(Instant now) override;

  const TcpErrors& errors() const;
  std::vector<TcpPeerState> peers() const;
  bool listening() const;
  std::string listen_trouble() const;  // why it does not listen although it should; empty otherwise

 private:
  struct Impl;
  explicit Tcp(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace pvrdma::transport
