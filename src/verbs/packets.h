// What a path that carries packets asks an engine about a connection (ADR 15): the state of both sides in
// PSNs, and which message a PSN belongs to. All of it follows from the engine's own state. So such a path
// keeps no state whose loss its peer would notice. Thread: values.
#pragma once

#include <cstdint>

#include "abi/attributes.h"
#include "verbs/ids.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

// The message that a responder has executed in part: the fields that all its pieces share.
struct UnderWay {
  std::uint32_t executed = 0;  // bytes; 0: no message is in progress
  RequestOp op{};
  std::uint32_t message_bytes = 0;
  std::uint32_t rkey = 0;
  std::uint64_t remote_addr = 0;

  // Whether `request` may continue the message. The length of a send is not compared: its receive bounds each
  // piece.
  bool continues(const Request& request) const {
    return executed == 0 || (op == request.op && rkey == request.rkey && remote_addr == request.remote_addr &&
                             (op == RequestOp::kSend || message_bytes == request.message_bytes));
  }
};

// Whether a read is answered for the first time, or the peer asked for its bytes before and may already have
// them.
enum class ReadAnswer : std::uint8_t { kFirst, kRepeated };

// The state of the receive side.
struct PacketsReceived {
  Psn next;              // the PSN expected next
  Psn message_psn;       // of the first packet of the message that `next` belongs to
  MessageNumber number;  // of that message
  UnderWay under_way;    // the executed part of it
  std::uint32_t msn;     // messages executed since the QP was connected, 24 bits
  abi::Mtu mtu{};
};

// The state of the send side.
struct PacketsSent {
  Psn oldest;                 // the oldest unconfirmed packet; equal to `next` if there is none
  Psn next;                   // the packet to be sent next
  std::uint32_t next_offset;  // where that packet begins in its message
  abi::Mtu mtu{};
  std::uint8_t max_rd_atomic;
};

// A packet that was sent, or the answer to one.
struct SentPacket {
  RequestOp op{};
  MessageNumber number;
  Psn message_psn;  // of the message's first packet
  std::uint32_t message_bytes;
  std::uint32_t offset;     // of the packet's first byte in the message
  std::uint32_t confirmed;  // confirmed bytes of the message
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
