// The contract of transports that leave the host: what carries messages to engines of other hosts, and brings
// theirs here.
//
// A HostTransport sends through Channels (transport.h), one for each (host, segment). What arrives it hands
// to an Inbound, which finds the engine. The sending host and the segment are the transport's word, proven by
// its handshake; everything inside a message is the peer's and untrusted.
//
// Thread: shard-owned.
#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <string_view>

#include "base/strong.h"
#include "base/time.h"
#include "transport/transport.h"
#include "verbs/message.h"
#include "verbs/payload.h"

namespace pvrdma::transport {

// A host of the cluster, as this daemon numbers it. Never used again for another host while the daemon lives.
using HostId = Strong<struct HostIdTag, std::uint32_t>;

// A switch and a VLAN: GIDs mean something inside one segment only. {0, 0} is this daemon's own, for adapters
// that no cluster knows; it never leaves the host.
struct SegmentId {
  std::uint32_t dvs = 0;
  std::uint16_t vlan = 0;
  friend auto operator<=>(const SegmentId&, const SegmentId&) = default;
};

// What became of a message that arrived.
enum class Delivery : std::uint8_t {
  kDelivered,      // an engine has it (and may have dropped it)
  kUnknownGid,     // no port of this host holds the GID it is for
  kForeignSource,  // the sending host does not hold the GID it is from: a lie, or news not here yet
};
inline constexpr std::size_t kDeliveries = 3;

class Inbound {
 public:
  virtual ~Inbound() = default;

  virtual Delivery on_request(HostId from, SegmentId segment, const verbs::Request& request,
                              verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_response(HostId from, SegmentId segment, const verbs::Response& response,
                               verbs::Payload& payload, Instant now) = 0;
  virtual Delivery on_datagram(HostId from, SegmentId segment, const verbs::Datagram& datagram,
                               const guestmem::SpanList& payload, Instant now) = 0;

  // Requests that were refused with Sent::kBusy may be sent again.
  virtual void on_ready(HostId host, Instant now) = 0;
  // A connection to the host was made anew: what was sent before and not answered may be lost, in part.
  virtual void on_restored(HostId host, Instant now) = 0;
  // is_up(host) has changed.
  virtual void on_up_changed(HostId host, Instant now) = 0;
};

class HostTransport {
 public:
  virtual ~HostTransport() = default;

  virtual std::string_view name() const = 0;
  virtual const Counters& counters() const = 0;

  // A channel to the engines of a segment on a host, known to the transport or not (then it drops and refuses
  // until it is). The transport outlives the channel.
  virtual std::unique_ptr<Channel> open(HostId host, SegmentId segment) = 0;

  // Whether a connection to the host stands.
  virtual bool is_up(HostId host) const = 0;

  // Everything sent so far goes out now: small messages may have been gathered.
  virtual void flush(Instant now) = 0;
};

}  // namespace pvrdma::transport
