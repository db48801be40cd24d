// What a path of packets asks an engine about a connection (ADR 15): where its two sides stand, in PSNs, and
// which message a PSN belongs to. All of it follows from the engine's own state, so that such a path needs
// none that its peer would miss. Thread: values.
#pragma once

#include <cstdint>

#include "abi/attributes.h"
#include "verbs/ids.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

// The message that a responder has executed in part: what all its pieces have in common.
struct UnderWay {
  std::uint32_t executed = 0;  // bytes; 0: none is under way
  RequestOp op{};
  std::uint32_t message_bytes = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;

  // Whether `request` may go on with it. How long a send is its receive decides, piece by piece.
  bool continues(const Request& request) const {
    return executed == 0 || (op == request.op && rkey == request.rkey && remote_addr == request.remote_addr &&
                             (op == RequestOp::kSend || message_bytes == request.message_bytes));
  }
};

// Whether the peer asked for a read's bytes before, and may have them.
enum class ReadAnswer : std::uint8_t { kFirst, kRepeated };

// The receive side.
struct PacketsReceived {
  Psn next;              // expected
  Psn message_psn;       // of the first packet of the message that it belongs to
  MessageNumber number;  // of that message
  UnderWay under_way;    // what is executed of it
  std::uint32_t msn;     // messages executed since the QP was connected, 24 bits
  abi::Mtu mtu{};
};

// The send side.
struct PacketsSent {
  Psn oldest;                 // not confirmed; `next` when there is none
  Psn next;                   // to be sent
  std::uint32_t next_offset;  // of that packet in its message
  abi::Mtu mtu{};
  std::uint8_t max_rd_atomic;
};

// A packet that was sent, or the answer to one that was.
struct SentPacket {
  RequestOp op{};
  MessageNumber number;
  Psn message_psn;  // of the message's first packet
  std::uint32_t message_bytes;
  std::uint32_t offset;     // of the packet's first byte in the message
  std::uint32_t confirmed;  // bytes of the message
  abi::Mtu mtu{};
  bool is_open;            // the message is not finished
  bool behind_unanswered;  // an earlier read or atomic has no answer yet

  std::uint32_t end() const {  // of the packet in its message
    const std::uint32_t bytes = abi::mtu_bytes(mtu);
    return message_bytes - offset < bytes ? message_bytes : offset + bytes;
  }
  bool is_last() const { return end() == message_bytes; }
};

}  // namespace pvrdma::verbs
