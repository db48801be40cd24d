// MessageObserver: is told of every message that an engine sends or receives, on whatever path. Captures
// implement it.
//
// It sees messages in the order in which the engine acts on them. Outgoing payload is reported before it is
// sent. Incoming payload is reported after it is placed, as it then is in this guest's memory. Both are guest
// memory, which may change during and after the call: what the peer gets may differ.
//
// Thread: the engine's shard, from inside Engine calls, where nothing may block or allocate.
#pragma once

#include <cstdint>

#include "abi/attributes.h"
#include "base/time.h"
#include "guestmem/host_span.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

enum class Direction : std::uint8_t { kOutbound, kInbound };

// What a response does not carry itself: the packet that it stands for.
struct Answered {
  Psn psn;  // of the packet, or of the first packet of a read's data
  std::uint32_t message_bytes = 0;
};

class MessageObserver {
 public:
  virtual ~MessageObserver() = default;

  // `payload` is null if there is none, if it was lost or if the engine did not take it. `mtu` is the
  // connection's.
  virtual void on_request(Direction direction, const Request& request, const guestmem::SpanList* payload,
                          abi::Mtu mtu, Instant now) = 0;
  virtual void on_response(Direction direction, const Response& response, const Answered& answered,
                           const guestmem::SpanList* payload, abi::Mtu mtu, Instant now) = 0;
  virtual void on_datagram(Direction direction, const Datagram& datagram, const guestmem::SpanList& payload,
                           Instant now) = 0;
};

}  // namespace pvrdma::verbs
