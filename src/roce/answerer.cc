#include "roce/answerer.h"

#include <algorithm>

#include "roce/request_packet.h"
#include "verbs/qp_attributes.h"

namespace pvrdma::roce {
namespace {

using verbs::distance;
using verbs::Syndrome;

constexpr Duration kNotificationInterval = std::chrono::microseconds(50);
constexpr std::uint8_t kNotificationTrafficClass = 48 << 2;  // the DSCP that switches expect; not ECN-capable

std::uint8_t wire_syndrome(const verbs::Response& response) {
  switch (response.syndrome) {
    case Syndrome::kRnrNak:
      return kSyndromeRnrNak | response.rnr_timer;
    case Syndrome::kNakInvalidRequest:
      return kSyndromeNakInvalidRequest;
    case Syndrome::kNakRemoteAccess:
      return kSyndromeNakRemoteAccess;
    case Syndrome::kNakRemoteOperational:
      return kSyndromeNakRemoteOperational;
    case Syndrome::kNakSequence:
      return kSyndromeNakSequence;
    case Syndrome::kAck:
    case Syndrome::kProgress:
      break;
  }
  return kSyndromeAck;
}

OwedAnswer nak(verbs::Psn psn, std::uint32_t msn, std::uint8_t syndrome) {
  return {.kind = OwedAnswer::Kind::kNak, .syndrome = syndrome, .psn = psn, .msn = msn};
}

}  // namespace

void Answerer::on_request(const Ends& ends, const Packet& packet, Instant now) {
  const auto state = ends.engine.packets_received(ends.connection);
  if (!state) return;
  const std::int32_t ahead = distance(packet.psn, state->next);
  if (ahead > 0) {
    on_early(ends, *state);
  } else if (ahead < 0) {
    on_repeated(ends, packet, *state);
  } else {
    on_due(ends, packet, *state, now);
  }
}

void Answerer::on_verdict(const verbs::Response& response) {
  verdict_ = response;
}

// One NAK is enough for a gap: the packets behind it are already in flight.
void Answerer::on_early(const Ends& ends, const verbs::PacketsReceived& state) {
  ++ends.counters.out_of_sequence;
  if (gap_told_ || owed_.full()) return;
  gap_told_ = true;
  owed_.push(nak(state.next, state.msn, kSyndromeNakSequence));
}

void Answerer::on_due(const Ends& ends, const Packet& packet, const verbs::PacketsReceived& state,
                      Instant now) {
  // Any request may need an entry for its answer. If no entry is free, the request counts as never received.
  if (owed_.full()) {
    ++ends.counters.resources_exceeded;
    return;
  }
  gap_told_ = false;
  verdict_.reset();
  const auto request = to_request(packet, ends.connection, state);
  bool accepted = false;
  if (!request) {
    verbs::Request refused;
    refused.from = ends.connection.remote;
    refused.to = ends.connection.local;
    refused.number = state.number;
    ends.engine.refuse_request(refused, request.error(), now);
  } else if (request->op == verbs::RequestOp::kRead) {
    accepted = ends.engine.accept_read(*request, now);
  } else {
    const guestmem::SpanList bytes = to_source(packet.payload);
    verbs::SpanPayload payload(bytes);
    ends.engine.on_request(*request, payload, now);
  }
  const std::uint32_t msn = state.msn + 1;  // of the message that this packet completes
  if (verdict_ && wire_syndrome(*verdict_) != kSyndromeAck) {
    gap_told_ = verdict_->syndrome == Syndrome::kRnrNak;
    owed_.push(nak(packet.psn, state.msn, wire_syndrome(*verdict_)));
  } else if (accepted) {
    owed_.push({.kind = OwedAnswer::Kind::kRead,
                .psn = packet.psn,
                .msn = msn,
                .rkey = packet.rkey,
                .bytes_left = packet.dma_bytes,
                .remote_addr = packet.remote_addr});
  } else if (verdict_ && request && request->is_atomic()) {
    owed_.push({.kind = OwedAnswer::Kind::kAtomic,
                .psn = packet.psn,
                .msn = msn,
                .original = verdict_->atomic_original});
  } else if (packet.ack_request) {
    ack_owed_ = true;
  }
}

// The request was executed before. Its answer was lost, or is still owed.
void Answerer::on_repeated(const Ends& ends, const Packet& packet, const verbs::PacketsReceived& state) {
  ++ends.counters.duplicate_request;
  if (packet.opcode == Opcode::kReadRequest) {
    // A repeated read may ask for the end of the first one, not for more (IBTA vol. 1, 9.4.5). Beyond the
    // largest length the number of packets wraps.
    if (packet.dma_bytes > kDmaBytesMax) return;
    const std::uint32_t packets = verbs::packet_count(packet.dma_bytes, state.mtu);
    if (distance(packet.psn + packets, state.next) > 0) return;
    owe(ends, {.kind = OwedAnswer::Kind::kRead,
               .answer = verbs::ReadAnswer::kRepeated,
               .psn = packet.psn,
               .msn = state.msn,
               .rkey = packet.rkey,
               .bytes_left = packet.dma_bytes,
               .remote_addr = packet.remote_addr});
  } else if (has(packet.opcode, kAtomicEth)) {
    const auto original = ends.engine.atomic_result(ends.connection, packet.psn);
    if (original)
      owe(ends,
          {.kind = OwedAnswer::Kind::kAtomic, .psn = packet.psn, .msn = state.msn, .original = *original});
  } else {
    ack_owed_ = true;
  }
}

// Owes the answer to a repeated request. The peer has gone back to that packet, so it repeats later ones too.
void Answerer::owe(const Ends& ends, const OwedAnswer& answer) {
  ends.counters.answers_dropped += owed_.drop_from(answer.psn);
  if (owed_.full()) {
    ++ends.counters.resources_exceeded;
    return;
  }
  owed_.push(answer);
}

void Answerer::on_marked(const Ends& ends, Instant now) {
  ++ends.counters.np_ecn_marked;
  if (now < notified_at_ + kNotificationInterval) return;
  notified_at_ = now;
  notification_owed_ = true;
}

std::uint32_t Answerer::answer(const Ends& ends, FrameSink& sink, std::uint32_t frames) {
  std::uint32_t sent = 0;
  if (notification_owed_ && sent < frames) {
    static constexpr std::array<std::byte, 16> kReserved{};
    Packet packet;
    packet.opcode = Opcode::kCongestionNotification;
    packet.becn = true;
    const guestmem::SpanList payload = to_source(kReserved);
    guestmem::SpanReader reader(payload);
    Ends told = ends;
    told.envelope.traffic_class = kNotificationTrafficClass;
    if (!told.send(packet, kReserved.size(), reader, sink)) return sent;
    notification_owed_ = false;
    ++ends.counters.np_cnp_sent;
    ++sent;
  }
  for (; sent < frames && !owed_.empty(); ++sent) {
    if (!send_first(ends, sink)) return sent;
  }
  if (sent < frames && owed_.empty() && ack_owed_) {
    if (!send_acknowledgement(ends, sink)) return sent;
    ++sent;
  }
  return sent;
}

bool Answerer::send_first(const Ends& ends, FrameSink& sink) {
  OwedAnswer& first = owed_.front();
  if (first.kind == OwedAnswer::Kind::kRead) return send_data(ends, first, sink);
  Packet packet;
  packet.psn = first.psn;
  packet.msn = first.msn & verbs::MessageNumber::kMask;
  if (first.kind == OwedAnswer::Kind::kAtomic) {
    packet.opcode = Opcode::kAtomicAcknowledge;
    packet.syndrome = kSyndromeAck;
    packet.atomic_original = first.original;
  } else {
    packet.opcode = Opcode::kAcknowledge;
    packet.syndrome = first.syndrome;
  }
  if (!ends.send(packet, sink)) return false;
  owed_.pop();
  return true;
}

// Sends one packet of a read's data. Returns false if there was no room.
bool Answerer::send_data(const Ends& ends, OwedAnswer& read, FrameSink& sink) {
  const auto state = ends.engine.packets_received(ends.connection);
  if (!state) {  // the QP no longer takes requests and answers none
    owed_.pop();
    return true;
  }
  const std::uint32_t bytes = std::min(read.bytes_left, abi::mtu_bytes(state->mtu));
  verbs::Request request;
  request.from = ends.connection.remote;
  request.to = ends.connection.local;
  request.op = verbs::RequestOp::kRead;
  request.remote_addr = read.remote_addr;
  request.rkey = read.rkey;
  request.message_bytes = request.bytes = bytes;
  guestmem::SpanList source;
  if (!ends.engine.open_read(request, read.answer, source)) {
    if (read.answer == verbs::ReadAnswer::kFirst) owed_.drop_from(read.psn.next());  // the QP has failed
    read = nak(read.psn, read.msn, kSyndromeNakRemoteAccess);
    return send_first(ends, sink);
  }
  const bool last = bytes == read.bytes_left;
  Packet packet;
  packet.opcode = last ? (read.begun ? Opcode::kReadResponseLast : Opcode::kReadResponseOnly)
                       : (read.begun ? Opcode::kReadResponseMiddle : Opcode::kReadResponseFirst);
  packet.psn = read.psn;
  packet.syndrome = kSyndromeAck;
  packet.msn = read.msn & verbs::MessageNumber::kMask;
  guestmem::SpanReader reader(source);
  if (!ends.send(packet, bytes, reader, sink)) return false;
  read.begun = true;
  read.psn = read.psn.next();
  read.remote_addr += bytes;
  read.bytes_left -= bytes;
  if (last) owed_.pop();
  return true;
}

// Acknowledges everything that was executed. Returns false if there was no room.
bool Answerer::send_acknowledgement(const Ends& ends, FrameSink& sink) {
  const auto state = ends.engine.packets_received(ends.connection);
  if (state) {
    Packet packet;
    packet.opcode = Opcode::kAcknowledge;
    packet.psn = state->next + verbs::Psn::kMask;
    packet.syndrome = kSyndromeAck;
    packet.msn = state->msn;
    if (!ends.send(packet, sink)) return false;
  }
  ack_owed_ = false;
  return true;
}

}  // namespace pvrdma::roce
