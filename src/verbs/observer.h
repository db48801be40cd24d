// MessageObserver: who is told of every message that an engine sends or takes, whatever its path: a capture.
//
// It sees messages in the order in which the engine acts on them. Payload that leaves is told before it is
// sent; payload that arrives when it has been placed, and so as it then stands in this guest's memory. Either
// is guest memory, which may change while it is looked at and after: what the peer gets may differ.
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

// What a response does not say of itself: the packet it would be.
struct Answered {
  Psn psn;  // of the packet, or of the first one of a read's data
  std::uint32_t message_bytes = 0;
};

class MessageObserver {
 public:
  virtual ~MessageObserver() = default;

  // `payload` null: none, or it did not come or was not wanted. `mtu` is the connection's.
  virtual void on_request(Direction direction, const Request& request, const guestmem::SpanList* payload,
                          abi::Mtu mtu, Instant now) = 0;
  virtual void on_response(Direction direction, const Response& response, const Answered& answered,
                           const guestmem::SpanList* payload, abi::Mtu mtu, Instant now) = 0;
  virtual void on_datagram(Direction direction, const Datagram& datagram, const guestmem::SpanList& payload,
                           Instant now) = 0;
};

}  // namespace pvrdma::verbs
