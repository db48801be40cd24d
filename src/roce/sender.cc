#include "roce/sender.h"

#include <algorithm>

#include "verbs/qp_attributes.h"

namespace pvrdma::roce {
namespace {

using verbs::distance;
using verbs::Psn;
using verbs::RequestOp;
using verbs::SentPacket;
using verbs::Syndrome;

constexpr std::uint32_t kAckInterval = 16;  // one packet in this many asks for an acknowledgement
constexpr std::uint8_t kSyndromeKindMask = 0x60;
constexpr std::uint8_t kSyndromeValueMask = 0x1f;

bool asks(RequestOp op) {
  return op == RequestOp::kRead || op == RequestOp::kCompareSwap || op == RequestOp::kFetchAdd;
}

struct Place {
  bool first;
  bool last;
};

Opcode send_opcode(Place place, verbs::Extra extra) {
  if (!place.last) return place.first ? Opcode::kSendFirst : Opcode::kSendMiddle;
  switch (extra) {
    case verbs::Extra::kNone:
      return place.first ? Opcode::kSendOnly : Opcode::kSendLast;
    case verbs::Extra::kImmediate:
      return place.first ? Opcode::kSendOnlyImmediate : Opcode::kSendLastImmediate;
    case verbs::Extra::kInvalidate:
      return place.first ? Opcode::kSendOnlyInvalidate : Opcode::kSendLastInvalidate;
  }
  return Opcode::kSendOnly;
}

Opcode write_opcode(Place place, verbs::Extra extra) {
  if (!place.last) return place.first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
  if (extra == verbs::Extra::kImmediate)
    return place.first ? Opcode::kWriteOnlyImmediate : Opcode::kWriteLastImmediate;
  return place.first ? Opcode::kWriteOnly : Opcode::kWriteLast;
}

Packet asking_packet(const verbs::Request& request) {
  Packet packet;
  packet.ack_request = true;
  packet.remote_addr = request.remote_addr + request.offset;
  packet.rkey = request.rkey;
  if (request.op == RequestOp::kRead) {
    packet.opcode = Opcode::kReadRequest;
    packet.dma_bytes = request.bytes;
  } else {
    const bool adds = request.op == RequestOp::kFetchAdd;
    packet.opcode = adds ? Opcode::kFetchAdd : Opcode::kCompareSwap;
    packet.swap_or_add = adds ? request.compare_add : request.swap;
    packet.compare = adds ? 0 : request.compare_add;
  }
  return packet;
}

}  // namespace

std::uint32_t Sender::free_packets(const verbs::PacketsSent& sent) const {
  const auto out = static_cast<std::uint32_t>(std::max(0, distance(sent.next, sent.oldest)));
  return window_.packets() - std::min(window_.packets(), out);
}

// A Sender that is new or has lost its state assumes that all packets of begun messages may have been sent.
void Sender::begin(const Ends& ends, const verbs::PacketsSent& sent) {
  if (begun_) return;
  begun_ = true;
  oldest_ = sent.oldest;
  next_ = sent.next;
  furthest_ = ends.engine.packets_begun(ends.connection).value_or(sent.next);
}

// Notices whether the engine has gone back to earlier packets. Called when the engine asks for room, so that
// the smaller window also bounds the packets that are sent again.
void Sender::note_repetition(const Ends& ends, const verbs::PacketsSent& sent) {
  begin(ends, sent);
  const Psn next = sent.next;
  if (distance(next, next_) < 0) {
    repeats_after_silence_ = cause_ == Cause::kSilence;
    if (repeats_after_silence_) {
      window_.on_silence(next_);
      round_trip_.on_silence();
    }
    if (cause_ == Cause::kMissing) window_.on_loss(next_);
    only_late_ = false;
    next_ = next;
  }
  cause_ = Cause::kSilence;
}

// Grants nothing while less than a quarter of the window is free, unless that is enough. So messages are not
// cut into tiny pieces.
std::uint32_t Sender::room(const Ends& ends, std::uint32_t wanted, const FrameSink& sink) {
  const auto sent = ends.engine.packets_sent(ends.connection);
  if (!sent) return 0;
  note_repetition(ends, *sent);
  const std::uint32_t packets = verbs::packet_count(wanted, sent->mtu);
  const std::uint32_t free = free_packets(*sent);
  if (free < packets && free < window_.packets() / 4) {
    waits_ = true;
    return 0;
  }
  auto allowed = static_cast<std::uint32_t>(std::min<std::size_t>({packets, free, sink.room()}));
  if (const std::int32_t late = distance(furthest_, sent->next); only_late_ && late > 0)
    allowed = std::min(allowed, static_cast<std::uint32_t>(late));
  return std::min(wanted, allowed * abi::mtu_bytes(sent->mtu));
}

// Grants a whole part of a read or nothing. If no packet is in flight, a part may exceed the window.
std::uint32_t Sender::room_to_ask(const Ends& ends, std::uint32_t wanted, const FrameSink& sink) {
  const auto sent = ends.engine.packets_sent(ends.connection);
  if (!sent || sink.room() == 0) return 0;
  note_repetition(ends, *sent);
  forget_asked(sent->next, sent->oldest);
  const std::uint32_t part = kPacketsAsked * abi::mtu_bytes(sent->mtu);
  const std::uint32_t bytes = std::min(wanted, part - sent->next_offset % part);
  const std::uint32_t free = free_packets(*sent);
  const bool fits = free == window_.packets() || verbs::packet_count(bytes, sent->mtu) <= free;
  if (fits && asked_count_ < std::min<std::uint32_t>(sent->max_rd_atomic, verbs::kRdAtomicMax)) return bytes;
  waits_ = true;
  return 0;
}

// Forgets the requests that are answered, and those that the engine is about to send again.
void Sender::forget_asked(Psn from, Psn oldest) {
  const auto end = std::remove_if(asked_.begin(), asked_.begin() + asked_count_, [&](Psn behind) {
    return distance(behind, oldest) <= 0 || distance(behind, from) > 0;
  });
  asked_count_ = static_cast<std::uint32_t>(end - asked_.begin());
}

void Sender::send_request(const Ends& ends, const verbs::Request& request, const guestmem::SpanList& payload,
                          FrameSink& sink, Instant now) {
  const auto state = ends.engine.packets_sent(ends.connection);
  if (!state) return;
  const std::uint32_t mtu = abi::mtu_bytes(state->mtu);
  const Psn first = request.psn + (request.offset >> abi::mtu_shift(state->mtu));
  const std::uint32_t count = verbs::packet_count(request.bytes, state->mtu);
  const auto old = static_cast<std::uint32_t>(std::max(0, distance(furthest_, first)));
  const bool is_new = old == 0;
  if (only_late_ && old >= count && !asks(request.op)) {
    next_ = first + count;
    return;
  }
  ends.counters.repeated += std::min(old, asks(request.op) ? 1 : count);
  next_ = first + count;
  if (!is_new) round_trip_.on_sent_again(first, next_);
  if (is_new || distance(next_, furthest_) > 0) furthest_ = next_;
  if (asks(request.op)) {
    Packet packet = asking_packet(request);
    packet.psn = first;
    if (!ends.send(packet, sink)) return;
    if (asked_count_ < asked_.size()) asked_[asked_count_++] = next_;
    if (is_new) round_trip_.on_sent(first, now);
    return;
  }
  guestmem::SpanReader reader(payload);
  for (std::uint32_t i = 0; i < count; ++i) {
    const std::uint32_t offset = request.offset + i * mtu;
    const std::uint32_t bytes = std::min(mtu, request.end() - offset);
    const Place place{offset == 0, offset + bytes == request.message_bytes};
    Packet packet;
    packet.opcode = request.op == RequestOp::kSend ? send_opcode(place, request.extra)
                                                   : write_opcode(place, request.extra);
    packet.psn = first + i;
    packet.ack_request = i + 1 == count || packet.psn.value % kAckInterval == kAckInterval - 1;
    packet.solicited = place.last && request.solicited;
    packet.remote_addr = request.remote_addr;
    packet.rkey = request.rkey;
    packet.dma_bytes = request.message_bytes;
    packet.immediate = request.extra_value;
    packet.invalidate_rkey = request.extra_value;
    if (!ends.send(packet, bytes, reader, sink)) return;  // lost, as any packet may be
  }
  if (is_new) round_trip_.on_sent(next_ + Psn::kMask, now);
}

void Sender::on_answer(const Ends& ends, const Packet& packet, Instant now) {
  const auto before = ends.engine.packets_sent(ends.connection);
  if (!before || distance(packet.psn, before->oldest) < 0) return;  // an old answer
  begin(ends, *before);
  const bool beyond = distance(packet.psn, furthest_) >= 0;
  const auto sent = beyond ? std::nullopt : ends.engine.sent_packet(ends.connection, packet.psn);
  if (!sent) {
    ++ends.counters.bad_response;
    return;
  }
  round_trip_.on_confirmed(packet.psn, now);
  if (repeats_after_silence_ && !only_late_ && distance(packet.psn, next_) >= 0) {
    only_late_ = true;
    window_.on_late();
  }
  bool is_one_missing = false;
  switch (packet.opcode) {
    case Opcode::kAcknowledge:
      is_one_missing = on_acknowledge(ends, packet, *sent, now);
      break;
    case Opcode::kAtomicAcknowledge:
      is_one_missing = on_atomic_result(ends, packet, *sent, now);
      break;
    default:
      is_one_missing = on_read_data(ends, packet, *sent, now);
      break;
  }
  const auto state = ends.engine.packets_sent(ends.connection);
  if (!state) return;
  const bool not_ready =
      packet.opcode == Opcode::kAcknowledge && (packet.syndrome & kSyndromeKindMask) == kSyndromeRnrNak;
  // If the engine has not gone back, it has ignored the NAK.
  if (not_ready && distance(state->next, before->next) < 0) cause_ = Cause::kNotReady;
  if (const std::int32_t more = distance(state->oldest, oldest_); more > 0)
    window_.on_confirmed(static_cast<std::uint32_t>(more), state->oldest);
  oldest_ = state->oldest;
  if (waits_ && free_packets(*state) >= window_.packets() / 4) {
    waits_ = false;
    ends.engine.on_path_ready(ends.connection);
  }
  if (is_one_missing) on_answer_missing(ends, state->oldest, now);
}

void Sender::on_congestion(const Ends& ends) {
  ++ends.counters.rp_cnp_handled;
  if (begun_) window_.on_loss(next_);
}

namespace {

verbs::Response response_to(const Ends& ends, const SentPacket& sent, Syndrome syndrome) {
  verbs::Response response;
  response.from = ends.connection.remote;
  response.to = ends.connection.local;
  response.number = sent.number;
  response.op = sent.op;
  response.syndrome = syndrome;
  response.offset = sent.offset;
  return response;
}

void hand_over(const Ends& ends, const verbs::Response& response, Instant now) {
  verbs::SpanPayload nothing;
  ends.engine.on_response(response, nothing, now);
}

}  // namespace

bool Sender::on_acknowledge(const Ends& ends, const Packet& packet, const SentPacket& sent, Instant now) {
  switch (packet.syndrome & kSyndromeKindMask) {
    case kSyndromeAck& kSyndromeKindMask: {
      // The peer has executed everything up to the packet. This does not answer a read or an atomic among
      // them.
      const bool whole = sent.is_last() && !asks(sent.op);
      auto response = response_to(ends, sent, whole ? Syndrome::kAck : Syndrome::kProgress);
      response.offset = asks(sent.op) ? 0 : sent.end();
      hand_over(ends, response, now);
      return sent.behind_unanswered || (asks(sent.op) && sent.is_open);
    }
    case kSyndromeRnrNak: {
      auto response = response_to(ends, sent, Syndrome::kRnrNak);
      response.rnr_timer = packet.syndrome & kSyndromeValueMask;
      ++ends.counters.rnr_nak_retry_err;
      hand_over(ends, response, now);
      return false;
    }
    default:
      break;
  }
  switch (packet.syndrome) {
    case kSyndromeNakSequence:
      ++ends.counters.packet_seq_err;
      if (cause_ == Cause::kSilence) cause_ = Cause::kMissing;
      hand_over(ends, response_to(ends, sent, Syndrome::kNakSequence), now);
      break;
    case kSyndromeNakInvalidRequest:
      hand_over(ends, response_to(ends, sent, Syndrome::kNakInvalidRequest), now);
      break;
    case kSyndromeNakRemoteAccess:
      hand_over(ends, response_to(ends, sent, Syndrome::kNakRemoteAccess), now);
      break;
    case kSyndromeNakRemoteOperational:
      hand_over(ends, response_to(ends, sent, Syndrome::kNakRemoteOperational), now);
      break;
    default:  // a NAK that the specification reserves: the peer will not execute the request
      ++ends.counters.bad_response;
      hand_over(ends, response_to(ends, sent, Syndrome::kNakRemoteOperational), now);
  }
  return false;
}

// Checks only PSN and length. Whether the opcode says first, middle or last depends on how the responder was
// asked.
bool Sender::on_read_data(const Ends& ends, const Packet& packet, const SentPacket& sent, Instant now) {
  if (sent.op != RequestOp::kRead || packet.payload.size() != sent.end() - sent.offset) {
    ++ends.counters.bad_response;
    return false;
  }
  if (!sent.is_open) return false;  // a duplicate
  if (sent.behind_unanswered || sent.offset > sent.confirmed) return true;
  auto response = response_to(ends, sent, Syndrome::kAck);
  response.bytes = static_cast<std::uint32_t>(packet.payload.size());
  const guestmem::SpanList data = to_source(packet.payload);
  verbs::SpanPayload payload(data);
  ends.engine.on_response(response, payload, now);
  return false;
}

bool Sender::on_atomic_result(const Ends& ends, const Packet& packet, const SentPacket& sent, Instant now) {
  if (sent.op != RequestOp::kCompareSwap && sent.op != RequestOp::kFetchAdd) {
    ++ends.counters.bad_response;
    return false;
  }
  if (sent.behind_unanswered) return true;
  auto response = response_to(ends, sent, Syndrome::kAck);
  response.atomic_original = packet.atomic_original;
  hand_over(ends, response, now);
  return false;
}

// An answer came, but an earlier one is missing. This counts as a NAK (IBTA vol. 1, 9.7.5.2.3). The answers
// that follow show the same gap until the missing one arrives, so they are ignored for a while.
void Sender::on_answer_missing(const Ends& ends, Psn oldest, Instant now) {
  if (oldest == missed_ && now < missed_until_) return;
  ++ends.counters.implied_nak_seq_err;
  if (cause_ == Cause::kSilence) cause_ = Cause::kMissing;
  missed_ = oldest;
  missed_until_ = now + round_trip_.repeat_after();
  ends.engine.repeat(ends.connection);
}

}  // namespace pvrdma::roce
