// The transport contract: what carries messages from one adapter's engine to another's.
//
// A Transport reaches engines of this host (memory copy), a HostTransport (host_transport.h) those of other
// hosts. Both open Channels. A Channel
// leads to one place and is all that the fabric's hot path touches. Which transport serves which peer is the
// fabric's decision.
//
// Delivery is best effort: a channel may lose, duplicate, delay and reorder messages, and reports nothing
// back. The engines at both ends make up for it with sequence numbers, timeouts and retries
// (verbs/requester.h), so a transport keeps no per-connection state that its peer would miss.
//
// Who owns what until when:
//  * Message structs are borrowed during the send_*() call; a channel that delivers later copies them.
//  * `payload` names guest memory of the sender, or memory of its engine, borrowed during the call only: when
//  send_*()
//    returns, the sender may recycle it. A channel that cannot finish with it by then copies the bytes or
//    drops the message. The bytes may change while they are read (they are a guest's).
//  * The receiving engine gets the same promise from the channel: what it is handed is valid during its
//  on_*() call.
//
// Re-entrancy: a channel may call the receiving engine before send_*() returns, and that engine may send on
// another channel, back to the first one included, from inside its on_*() call.
//
// Thread: all of it on the shard that owns the sending engine.
#pragma once

#include <cstdint>
#include <memory>
#include <string_view>

#include "base/time.h"
#include "guestmem/host_span.h"
#include "verbs/engine.h"
#include "verbs/message.h"
#include "verbs/wire.h"

namespace pvrdma::transport {

// What a transport has carried, of all its channels together.
struct Counters {
  std::uint64_t requests = 0;
  std::uint64_t responses = 0;
  std::uint64_t datagrams = 0;
  std::uint64_t payload_bytes = 0;

  std::uint64_t messages() const { return requests + responses + datagrams; }
};

class Channel {
 public:
  virtual ~Channel() = default;

  // `payload` holds request.bytes bytes, nothing for reads and atomics.
  virtual verbs::Sent send_request(const verbs::Request& request, const guestmem::SpanList& payload,
                                   Instant now) = 0;

  // `payload` holds response.bytes bytes for reads, nothing otherwise.
  virtual void send_response(const verbs::Response& response, const guestmem::SpanList& payload,
                             Instant now) = 0;

  // `payload` holds datagram.bytes bytes.
  virtual void send_datagram(const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                             Instant now) = 0;
};

class Transport {
 public:
  virtual ~Transport() = default;

  // What path listings and metrics call it, for example "local". Static storage.
  virtual std::string_view name() const = 0;

  virtual const Counters& counters() const = 0;

  // A channel to an engine of this shard. `peer` is borrowed and outlives the channel; the transport outlives
  // both.
  virtual std::unique_ptr<Channel> open(verbs::Engine& peer) = 0;
};

}  // namespace pvrdma::transport
