// Wire: how an engine reaches the world. Implemented by fabric/ (which picks the path); the engine never
// knows how a message travels.
//
// Thread: called on the engine's shard, from inside Engine calls. An implementation may call the peer's
// Engine before it returns (the local path does), and the peer may answer at once: an Engine expects
// Engine::on_response from inside Wire::request. Messages may be lost, duplicated, delayed and reordered; the
// engine makes up for all of that.
#pragma once

#include "base/time.h"
#include "guestmem/host_span.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

// A connection's own memory of where its peer is, so that the path is not looked up for each message. Wire
// fills it; `generation` differs from the fabric's when the answer may have changed. 0 = never looked up.
struct PeerRoute {
  void* target = nullptr;  // borrowed: owned by the fabric, valid while generation matches
  std::uint64_t generation = 0;
};

// What became of a request.
enum class Sent : std::uint8_t {
  kTaken,  // it is on its way, or lost: the answer timer tells
  kBusy,   // the path takes nothing now: nothing of it was sent; Engine::on_path_ready() tells when to try
           // again
};

class Wire {
 public:
  virtual ~Wire() = default;

  // `payload` holds request.bytes bytes (nothing for reads and atomics), valid during the call only.
  virtual Sent send_request(PeerRoute& route, const Request& request, const guestmem::SpanList& payload,
                            Instant now) = 0;

  // `payload` holds response.bytes bytes, only for reads.
  virtual void send_response(PeerRoute& route, const Response& response, const guestmem::SpanList& payload,
                             Instant now) = 0;

  virtual void send_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) = 0;

  // The engine's turn is over: what it sent goes out now.
  virtual void flush(Instant now) = 0;

  // A guest bound or unbound a GID on this adapter. False: another port of the switch has it already.
  virtual bool bind_gid(const Gid& gid) = 0;
  virtual void unbind_gid(const Gid& gid) = 0;
};

}  // namespace pvrdma::verbs
