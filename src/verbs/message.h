// Messages between two engines: requests, responses and datagrams.
//
// They are values, not bytes: a transport that leaves the host encodes them, the local one passes them as
// they are. The payload travels beside the message as host spans that are valid only during the call.
//
// A message that is too large for one turn travels in pieces; (number, offset) tells where a piece belongs.
// Every field from another adapter is untrusted: the responder checks it against its own objects. Thread:
// values.
#pragma once

#include <cstdint>

#include "verbs/ids.h"
#include "vocabulary/mac.h"

namespace pvrdma::verbs {

// The most bytes of one piece: bounds the time of one copy (about 25 us at 10 GB/s).
inline constexpr std::uint32_t kPieceBytesMax = 256 * 1024;

// During a long send or write, the responder reports kProgress each time it has executed this many more
// bytes.
inline constexpr std::uint32_t kProgressBytes = 512 * 1024;

enum class RequestOp : std::uint8_t { kSend, kWrite, kRead, kCompareSwap, kFetchAdd };

enum class Extra : std::uint8_t { kNone, kImmediate, kInvalidate };

struct Request {
  Endpoint from;
  Endpoint to;
  MessageNumber number;
  Psn psn;  // of the message's first packet (ADR 13)
  RequestOp op{};
  Extra extra{};  // kImmediate for kSend and kWrite, kInvalidate for kSend
  bool solicited = false;
  std::uint32_t extra_value = 0;    // immediate data as in guest memory (BE), or the rkey to invalidate
  std::uint32_t message_bytes = 0;  // of the whole message
  std::uint32_t offset = 0;         // of this piece in the message
  std::uint32_t bytes = 0;          // of this piece
  std::uint64_t remote_addr = 0;    // of the whole message (write, read, atomics)
  std::uint32_t rkey = 0;
  std::uint64_t compare_add = 0;
  std::uint64_t swap = 0;
  bool by_packet = false;  // it arrived as packets: `number` is the responder's own count

  std::uint32_t end() const { return offset + bytes; }  // of this piece in the message
  bool is_last() const { return end() == message_bytes; }
  bool is_atomic() const { return op == RequestOp::kCompareSwap || op == RequestOp::kFetchAdd; }
  bool is_read_or_atomic() const { return op == RequestOp::kRead || is_atomic(); }
};

enum class Syndrome : std::uint8_t {
  kAck,
  kProgress,     // everything before (number, offset) is executed; more of the message is expected
  kRnrNak,       // no receive WQE: try again after rnr_timer
  kNakSequence,  // a gap: continue from (number, offset)
  kNakInvalidRequest,
  kNakRemoteAccess,
  kNakRemoteOperational,
};

struct Response {
  Endpoint from;
  Endpoint to;
  MessageNumber number;  // kAck: this message and all before it are executed; otherwise the message concerned
  Syndrome syndrome{};
  RequestOp op{};              // of the request that this answers
  std::uint8_t rnr_timer = 0;  // IB encoding 0…31
  std::uint32_t offset = 0;    // read: of the data; kProgress, kRnrNak, kNakSequence: where to continue
  std::uint32_t bytes = 0;     // read: of the data in this response
  std::uint64_t atomic_original = 0;
};

// How packets reach a peer beyond the cluster, as resolved by the guest. It is never sent to another host.
struct Route {
  Mac next_hop;  // of the peer or of the first router
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  std::uint32_t flow_label = 0;
  RoceVersion roce{};
  friend bool operator==(const Route&, const Route&) = default;
};

// A UD or GSI message.
struct Datagram {
  Endpoint from;
  Endpoint to;
  std::uint32_t qkey = 0;
  Extra extra{};  // kImmediate or kNone
  bool solicited = false;
  std::uint32_t extra_value = 0;
  std::uint32_t bytes = 0;
  std::uint32_t flow_label = 0;
  std::uint8_t traffic_class = 0;
  std::uint8_t hop_limit = 0;
  RoceVersion roce{};
  Mac next_hop{};  // as in Route
};

}  // namespace pvrdma::verbs
