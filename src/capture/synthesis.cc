#include "capture/synthesis.h"

#include <algorithm>
#include <utility>

namespace pvrdma::capture {
namespace {

using roce::Opcode;
using verbs::Direction;
using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

// The MAC that the address was derived from; otherwise a made-up MAC that no adapter has.
Mac mac_of(const verbs::Gid& gid) {
  const auto& g = gid.bytes;
  return verbs::mac_in(gid).value_or(Mac{{2, 0, g[12], g[13], g[14], g[15]}});
}

std::uint8_t syndrome_of(const verbs::Response& response) {
  switch (response.syndrome) {
    case Syndrome::kAck:
    case Syndrome::kProgress:
      return roce::kSyndromeAck;
    case Syndrome::kRnrNak:
      return roce::kSyndromeRnrNak | (response.rnr_timer & 0x1f);
    case Syndrome::kNakSequence:
      return roce::kSyndromeNakSequence;
    case Syndrome::kNakInvalidRequest:
      return roce::kSyndromeNakInvalidRequest;
    case Syndrome::kNakRemoteAccess:
      return roce::kSyndromeNakRemoteAccess;
    case Syndrome::kNakRemoteOperational:
      return roce::kSyndromeNakRemoteOperational;
  }
  return roce::kSyndromeNakInvalidRequest;
}

Opcode send_opcode(bool first, bool last, Extra extra) {
  if (!last) return first ? Opcode::kSendFirst : Opcode::kSendMiddle;
  switch (extra) {
    case Extra::kImmediate:
      return first ? Opcode::kSendOnlyImmediate : Opcode::kSendLastImmediate;
    case Extra::kInvalidate:
      return first ? Opcode::kSendOnlyInvalidate : Opcode::kSendLastInvalidate;
    case Extra::kNone:
      break;
  }
  return first ? Opcode::kSendOnly : Opcode::kSendLast;
}

Opcode write_opcode(bool first, bool last, Extra extra) {
  if (!last) return first ? Opcode::kWriteFirst : Opcode::kWriteMiddle;
  if (extra == Extra::kImmediate) return first ? Opcode::kWriteOnlyImmediate : Opcode::kWriteLastImmediate;
  return first ? Opcode::kWriteOnly : Opcode::kWriteLast;
}

Opcode read_response_opcode(bool first, bool last) {
  if (first) return last ? Opcode::kReadResponseOnly : Opcode::kReadResponseFirst;
  return last ? Opcode::kReadResponseLast : Opcode::kReadResponseMiddle;
}

// Fills in the packet that begins at `offset` of the request's message.
void fill_request(const verbs::Request& request, std::uint32_t offset, std::uint32_t bytes, abi::Mtu mtu,
                  roce::Packet& packet) {
  const bool last = request.is_read_or_atomic() || offset + bytes == request.message_bytes;
  const bool first = offset == 0;
  packet.psn = request.psn + (offset >> abi::mtu_shift(mtu));
  packet.remote_addr = request.remote_addr;
  packet.rkey = request.rkey;
  packet.dma_bytes = request.message_bytes;
  packet.ack_request = last;
  switch (request.op) {
    case RequestOp::kSend:
      packet.opcode = send_opcode(first, last, request.extra);
      break;
    case RequestOp::kWrite:
      packet.opcode = write_opcode(first, last, request.extra);
      break;
    case RequestOp::kRead:  // each piece becomes a READ request of its own
      packet.opcode = Opcode::kReadRequest;
      packet.remote_addr += offset;
      packet.dma_bytes = request.bytes;
      break;
    case RequestOp::kCompareSwap:
      packet.opcode = Opcode::kCompareSwap;
      packet.swap_or_add = request.swap;
      packet.compare = request.compare_add;
      break;
    case RequestOp::kFetchAdd:
      packet.opcode = Opcode::kFetchAdd;
      packet.swap_or_add = request.compare_add;
      break;
  }
  packet.solicited = last && request.solicited && request.op <= RequestOp::kWrite;
  packet.immediate = packet.invalidate_rkey = request.extra_value;
}

void fill_response(const Record& record, std::uint32_t offset, std::uint32_t bytes, roce::Packet& packet) {
  const verbs::Response& response = record.response;
  const std::uint32_t shift = abi::mtu_shift(record.mtu);
  packet.psn = record.answered.psn;
  packet.syndrome = syndrome_of(response);
  packet.msn = response.number.value;
  if (response.syndrome != Syndrome::kAck || response.op == RequestOp::kSend ||
      response.op == RequestOp::kWrite) {
    packet.opcode = Opcode::kAcknowledge;
  } else if (response.op == RequestOp::kRead) {
    const std::uint32_t end = offset + bytes;
    packet.psn = packet.psn + ((offset >> shift) - (response.offset >> shift));
    packet.opcode = read_response_opcode(
        offset % verbs::kPieceBytesMax == 0,
        end == record.answered.message_bytes || (end % verbs::kPieceBytesMax == 0 && end != 0));
  } else {
    packet.opcode = Opcode::kAtomicAcknowledge;
    packet.atomic_original = response.atomic_original;
  }
}

verbs::MessageNumber number_of(const Record& record) {
  return record.kind == Kind::kRequest ? record.request.number : record.response.number;
}

std::uint32_t message_bytes(const Record& record) {
  return record.kind == Kind::kRequest ? record.request.message_bytes : record.answered.message_bytes;
}

// Identifies the half of a QP that carries the record's message.
std::uint64_t key_of(const Record& record) {
  const bool outbound = record.direction == Direction::kOutbound;
  const verbs::Qpn own = outbound ? record.from().qpn : record.to().qpn;
  return std::uint64_t{own.value} << 2 | (outbound ? 2U : 0U) | (record.kind == Kind::kRequest ? 1U : 0U);
}

}  // namespace

void Synthesis::frames_of(const Record& record, std::span<const std::byte> payload, const FrameSink& sink) {
  roce::Frame frame;
  roce::Envelope& envelope = frame.envelope;
  const bool outbound = record.direction == Direction::kOutbound;
  const Mac peer = mac_of(record.peer().gid);
  envelope.source_mac = outbound ? mac_ : peer;
  envelope.destination_mac = outbound ? peer : mac_;
  envelope.version = version_;
  envelope.source = record.from().gid;
  envelope.destination = record.to().gid;
  envelope.source_port = roce::source_port(envelope.flow_label, record.from().qpn, record.to().qpn);
  frame.packet.destination = record.to().qpn;
  if (record.kind == Kind::kDatagram) return emit_datagram(record.datagram, payload, frame, sink);

  const std::uint32_t mtu = abi::mtu_bytes(record.mtu);
  for_each_packet(record.offset(), record.bytes(), mtu, [&](std::uint32_t begin, std::uint32_t bytes) {
    const std::size_t kept = std::min<std::size_t>({bytes, record.stride_bytes, payload.size()});
    Part part{record.offset() + begin, bytes, payload.first(kept)};
    payload = payload.subspan(kept);
    if (bytes != 0) {
      if (part.offset % mtu != 0 && !join(record, part)) return;
      const std::uint32_t end = part.offset + part.bytes;
      if (end % mtu != 0 && end < message_bytes(record)) return hold(record, part);
    }
    if (record.kind == Kind::kRequest) {
      fill_request(record.request, part.offset, part.bytes, record.mtu, frame.packet);
    } else {
      fill_response(record, part.offset, part.bytes, frame.packet);
    }
    emit(frame, part.bytes, part.kept, sink);
  });
}

void Synthesis::emit_datagram(const verbs::Datagram& datagram, std::span<const std::byte> payload,
                              roce::Frame& frame, const FrameSink& sink) {
  frame.envelope.version = datagram.roce;
  frame.envelope.traffic_class = datagram.traffic_class;
  frame.envelope.flow_label = datagram.flow_label & 0xf'ffff;
  if (datagram.hop_limit != 0) frame.envelope.hop_limit = datagram.hop_limit;
  roce::Packet& packet = frame.packet;
  packet.opcode = datagram.extra == Extra::kImmediate ? Opcode::kUdSendOnlyImmediate : Opcode::kUdSendOnly;
  packet.solicited = datagram.solicited;
  packet.psn = verbs::Psn(datagrams_++);
  packet.qkey = datagram.qkey;
  packet.source = datagram.from.qpn;
  packet.immediate = datagram.extra_value;
  emit(frame, datagram.bytes, payload, sink);
}

// Prepends the part of the same packet that came before. False: that part is missing.
bool Synthesis::join(const Record& record, Part& part) {
  const auto found = begun_.find(key_of(record));
  if (found == begun_.end()) return false;
  Begun begun = std::move(found->second);
  begun_.erase(found);
  if (begun.number != number_of(record) || begun.offset + begun.bytes != part.offset) return false;
  joined_ = std::move(begun.kept);
  if (joined_.size() == begun.bytes) joined_.insert(joined_.end(), part.kept.begin(), part.kept.end());
  part = {begun.offset, begun.bytes + part.bytes, joined_};
  return true;
}

void Synthesis::hold(const Record& record, const Part& part) {
  if (begun_.size() == kBegunMax && !begun_.contains(key_of(record))) return;
  begun_[key_of(record)] = {number_of(record), part.offset, part.bytes, {part.kept.begin(), part.kept.end()}};
}

void Synthesis::emit(roce::Frame& frame, std::uint32_t payload_bytes, std::span<const std::byte> kept,
                     const FrameSink& sink) {
  if (payload_bytes > roce::kMtuBytesMax) return;  // the engine drops such a message
  const std::size_t whole = roce::frame_bytes(frame, payload_bytes);
  std::size_t size = 0;
  if (kept.size() == payload_bytes) {
    frame.packet.payload = kept;
    size = roce::build(frame, bytes_.data());
  } else {
    size = roce::build_head(frame, payload_bytes, bytes_.data());
    std::copy(kept.begin(), kept.end(), bytes_.begin() + static_cast<std::ptrdiff_t>(size));
    size += kept.size();
  }
  sink(std::span(bytes_).first(std::min<std::size_t>(size, snap_bytes_)), whole);
}

}  // namespace pvrdma::capture
