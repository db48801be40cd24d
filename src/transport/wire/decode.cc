#include <array>

#include "base/network_order.h"
#include "transport/wire/format.h"
#include "transport/wire/rules.h"

namespace pvrdma::transport::wire {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

std::string_view take_text(NetworkReader& reader, std::size_t size) {
  const auto text = reader.take_view(size);
  return {reinterpret_cast<const char*>(text.data()), text.size()};
}

// Readers of bodies. Each gets a body that is complete, and fills `out`.

void get_ends(NetworkReader& reader, verbs::Endpoint& from, verbs::Endpoint& to) {
  reader.take_bytes(from.gid.bytes.data(), from.gid.bytes.size());
  reader.take_bytes(to.gid.bytes.data(), to.gid.bytes.size());
  from.qpn = verbs::Qpn(reader.take<std::uint32_t>());
  to.qpn = verbs::Qpn(reader.take<std::uint32_t>());
}

// A Serial keeps only 24 bits of any value, so the number is checked before.
template <typename Serial>
Defect get_serial(NetworkReader& reader, Serial& serial, Defect defect) {
  const auto value = reader.take<std::uint32_t>();
  serial = Serial(value);
  return value > Serial::kMask ? defect : Defect::kNone;
}

Defect get_bits(NetworkReader& reader, bool& solicited) {
  const auto bits = reader.take<std::uint8_t>();
  solicited = (bits & kSolicitedBit) != 0;
  return (bits & ~kSolicitedBit) != 0 ? Defect::kReservedBits : Defect::kNone;
}

Defect reserved(std::uint64_t value) {
  return value != 0 ? Defect::kReservedBits : Defect::kNone;
}
Defect unused(bool is_zero) {
  return is_zero ? Defect::kNone : Defect::kUnusedField;
}

Defect get(NetworkReader reader, verbs::Request& out) {
  get_ends(reader, out.from, out.to);
  const Defect number = get_serial(reader, out.number, Defect::kNumber);
  out.op = static_cast<RequestOp>(reader.take<std::uint8_t>());
  out.extra = static_cast<Extra>(reader.take<std::uint8_t>());
  const Defect bits = get_bits(reader, out.solicited);
  const Defect gap = reserved(reader.take<std::uint8_t>());
  out.extra_value = reader.take<std::uint32_t>();
  out.message_bytes = reader.take<std::uint32_t>();
  out.offset = reader.take<std::uint32_t>();
  out.bytes = reader.take<std::uint32_t>();
  out.remote_addr = reader.take<std::uint64_t>();
  out.rkey = reader.take<std::uint32_t>();
  const Defect psn = get_serial(reader, out.psn, Defect::kPsn);
  out.compare_add = reader.take<std::uint64_t>();
  out.swap = reader.take<std::uint64_t>();
  return first_of({number, psn, bits, gap, defect_of(out),
                   unused(out.extra != Extra::kNone || out.extra_value == 0),
                   unused(out.op != RequestOp::kSend || (out.remote_addr == 0 && out.rkey == 0)),
                   unused(out.is_atomic() || out.compare_add == 0),
                   unused(out.op == RequestOp::kCompareSwap || out.swap == 0)});
}

Defect get(NetworkReader reader, verbs::Response& out) {
  get_ends(reader, out.from, out.to);
  const Defect number = get_serial(reader, out.number, Defect::kNumber);
  out.op = static_cast<RequestOp>(reader.take<std::uint8_t>());
  out.syndrome = static_cast<Syndrome>(reader.take<std::uint8_t>());
  out.rnr_timer = reader.take<std::uint8_t>();
  const Defect gap = reserved(reader.take<std::uint8_t>());
  out.offset = reader.take<std::uint32_t>();
  out.bytes = reader.take<std::uint32_t>();
  out.atomic_original = reader.take<std::uint64_t>();
  return first_of({number, gap, defect_of(out), unused(carries_original(out) || out.atomic_original == 0)});
}

Defect get(NetworkReader reader, verbs::Datagram& out) {
  get_ends(reader, out.from, out.to);
  out.qkey = reader.take<std::uint32_t>();
  out.extra = static_cast<Extra>(reader.take<std::uint8_t>());
  const Defect bits = get_bits(reader, out.solicited);
  out.roce = static_cast<RoceVersion>(reader.take<std::uint8_t>());
  out.traffic_class = reader.take<std::uint8_t>();
  out.extra_value = reader.take<std::uint32_t>();
  out.bytes = reader.take<std::uint32_t>();
  out.flow_label = reader.take<std::uint32_t>();
  out.hop_limit = reader.take<std::uint8_t>();
  const Defect gap =
      first_of({reserved(reader.take<std::uint8_t>()), reserved(reader.take<std::uint16_t>())});
  return first_of({bits, gap, defect_of(out), unused(out.extra != Extra::kNone || out.extra_value == 0)});
}

// The offset of the length of a text that ends a body.
constexpr std::size_t kHandshakeTextBytesAt = 14;
constexpr std::size_t kGoodbyeTextBytesAt = 2;

std::size_t text_bytes(std::span<const std::byte> body, std::size_t at) {
  return NetworkReader(body.subspan(at)).take<std::uint16_t>();
}

Defect get(NetworkReader reader, Hello& out, std::size_t name_bytes) {
  reader.skip(kVersionEndBytes - sizeof(std::uint16_t));
  const bool has_shards = reader.take<std::uint16_t>() == kShardHelloVersion;
  out.lane = reader.take<std::uint16_t>();
  out.lanes = reader.take<std::uint16_t>();
  reader.skip(2);
  reader.take_bytes(out.id.data(), out.id.size());
  if (has_shards) {
    out.shard = ShardNumber(reader.take<std::uint16_t>());
    out.from_shard = ShardNumber(reader.take<std::uint16_t>());
  }
  out.host = HostName(take_text(reader, name_bytes));
  return first_of({defect_of(out), names_shards(out) == has_shards ? Defect::kNone : Defect::kShard});
}

Defect get(NetworkReader reader, Welcome& out, std::size_t name_bytes) {
  reader.skip(kVersionEndBytes);
  const Defect gap = reserved(reader.take<std::uint32_t>());
  reader.skip(2);
  reader.take_bytes(out.id.data(), out.id.size());
  out.host = HostName(take_text(reader, name_bytes));
  return first_of({gap, defect_of(out)});
}

Defect get(NetworkReader reader, Reject& out, std::size_t sentence_bytes) {
  reader.skip(8);
  out.version = reader.take<std::uint16_t>();
  out.reason = static_cast<RejectReason>(reader.take<std::uint16_t>());
  const Defect gap = reserved(reader.take<std::uint16_t>());
  reader.skip(2);
  const std::string_view text = take_text(reader, sentence_bytes);
  out.sentence = Sentence(text);
  return first_of({gap, defect_of(out), is_sentence(text) ? Defect::kNone : Defect::kSentence});
}

Defect get(NetworkReader reader, Goodbye& out, std::size_t sentence_bytes) {
  out.reason = static_cast<GoodbyeReason>(reader.take<std::uint16_t>());
  reader.skip(2);
  const std::string_view text = take_text(reader, sentence_bytes);
  out.sentence = Sentence(text);
  return first_of({defect_of(out), is_sentence(text) ? Defect::kNone : Defect::kSentence});
}

struct Header {
  std::uint32_t frame_bytes;
  Kind kind;
  bool has_shards;  // a Hello of kShardHelloVersion
  SegmentId segment;
  std::uint64_t sequence;
};

// Bounds for the parts of a frame, by kind.
struct Lengths {
  std::size_t body;     // without the text
  std::size_t text;     // at most
  std::size_t payload;  // at most
};

constexpr std::array<Lengths, std::variant_size_v<Body>> kLengths{{
    {kHelloBytes, kHostNameBytesMax, 0},
    {kHelloBytes, kHostNameBytesMax, 0},
    {kRejectBytes, kSentenceBytesMax, 0},
    {kRequestBytes, 0, verbs::kPieceBytesMax},
    {kResponseBytes, 0, verbs::kPieceBytesMax},
    {kDatagramBytes, 0, wire::kDatagramBytesMax},
    {kPingBytes, 0, 0},
    {kGoodbyeBytes, kSentenceBytesMax, 0},
}};
constexpr Lengths kShardHello{kShardHelloBytes, kHostNameBytesMax, 0};

bool is_known(Kind kind) {
  return kind >= Kind::kHello && kind <= Kind::kGoodbye;
}
bool is_handshake(Kind kind) {
  return kind <= Kind::kReject;
}
bool is_message(Kind kind) {
  return kind >= Kind::kRequest && kind <= Kind::kDatagram;
}
const Lengths& lengths_of(const Header& header) {
  return header.has_shards ? kShardHello : kLengths[static_cast<std::size_t>(header.kind) - 1];
}

Defect get(NetworkReader reader, Header& out) {
  out.frame_bytes = reader.take<std::uint32_t>();
  out.kind = static_cast<Kind>(reader.take<std::uint8_t>());
  if (!is_known(out.kind)) return Defect::kKind;
  const Defect flags = reserved(reader.take<std::uint8_t>());
  out.segment.vlan = reader.take<std::uint16_t>();
  out.segment.dvs = reader.take<std::uint32_t>();
  const Defect gap = reserved(reader.take<std::uint32_t>());
  out.sequence = reader.take<std::uint64_t>();
  const Defect segment = is_message(out.kind) ? defect_of(out.segment) : unused(out.segment == SegmentId{});
  const Defect sequence = is_handshake(out.kind) && out.sequence != 0 ? Defect::kSequence : Defect::kNone;
  return first_of({flags, gap, segment, sequence});
}

// A hello of another version may have another length, so the length is checked after the version.
Defect defect_of_length(const Header& header) {
  const Lengths& lengths = lengths_of(header);
  const std::size_t shortest = kHeaderBytes + lengths.body;
  const bool fits =
      header.frame_bytes >= shortest && header.frame_bytes <= shortest + lengths.text + lengths.payload;
  return fits ? Defect::kNone : Defect::kFrameBytes;
}

Decoded bad(Defect defect, std::uint16_t version = 0) {
  return {.state = Decoded::State::kBad, .defect = defect, .version = version};
}

Decoded need(std::size_t head_bytes) {
  return {.state = Decoded::State::kNeedMore, .head_bytes = head_bytes};
}

Decoded complete(const Header& header, std::size_t head_bytes, std::uint32_t payload, const Body& body,
                 Frame& frame) {
  frame.sequence = header.sequence;
  frame.segment = header.segment;
  frame.body = body;
  return {.state = Decoded::State::kComplete, .head_bytes = head_bytes, .payload_bytes = payload};
}

// Kinds with a payload after a body of fixed size.
template <typename Message, std::size_t kBodyBytes>
Decoded decode_message(const Header& header, std::span<const std::byte> body, Frame& frame) {
  constexpr std::size_t kHeadBytes = kHeaderBytes + kBodyBytes;
  Message message;
  if (const Defect defect = get(NetworkReader(body.first<kBodyBytes>()), message); defect != Defect::kNone)
    return bad(defect);
  const std::uint32_t payload = payload_bytes(message);
  if (header.frame_bytes != kHeadBytes + payload) return bad(Defect::kFrameBytes);
  return complete(header, kHeadBytes, payload, Body(message), frame);
}

// Kinds that end in a text. `bytes` may not contain all of it yet.
template <typename Said>
Decoded decode_text(const Header& header, std::span<const std::byte> bytes, std::size_t text_size,
                    Frame& frame) {
  const Lengths& lengths = lengths_of(header);
  const std::size_t head_bytes = kHeaderBytes + lengths.body + text_size;
  if (text_size > lengths.text || header.frame_bytes != head_bytes) return bad(Defect::kFrameBytes);
  if (bytes.size() < head_bytes) return need(head_bytes);
  Said said;
  if (const Defect defect = get(NetworkReader(bytes.subspan(kHeaderBytes)), said, text_size);
      defect != Defect::kNone)
    return bad(defect);
  return complete(header, head_bytes, 0, Body(said), frame);
}

}  // namespace

Decoded decode(std::span<const std::byte> bytes, Frame& frame) {
  if (bytes.size() < kHeaderBytes) return need(kHeaderBytes);
  Header header{};
  if (const Defect defect = get(NetworkReader(bytes.first<kHeaderBytes>()), header); defect != Defect::kNone)
    return bad(defect);

  const auto body = bytes.subspan(kHeaderBytes);
  if (is_handshake(header.kind)) {
    constexpr std::size_t kEnd = kHeaderBytes + kVersionEndBytes;
    if (bytes.size() < kEnd) return need(kEnd);
    NetworkReader reader(body);
    if (reader.take<std::uint64_t>() != kMagic) return bad(Defect::kMagic);
    const auto version = reader.take<std::uint16_t>();
    header.has_shards = header.kind == Kind::kHello && version == kShardHelloVersion;
    const bool is_known = version == kProtocolVersion || header.has_shards || header.kind == Kind::kReject;
    if (!is_known) return bad(Defect::kVersion, version);
  }
  if (const Defect defect = defect_of_length(header); defect != Defect::kNone) return bad(defect);
  const std::size_t head_bytes = kHeaderBytes + lengths_of(header).body;
  if (bytes.size() < head_bytes) return need(head_bytes);

  switch (header.kind) {
    case Kind::kHello:
      return decode_text<Hello>(header, bytes, text_bytes(body, kHandshakeTextBytesAt), frame);
    case Kind::kWelcome:
      return decode_text<Welcome>(header, bytes, text_bytes(body, kHandshakeTextBytesAt), frame);
    case Kind::kReject:
      return decode_text<Reject>(header, bytes, text_bytes(body, kHandshakeTextBytesAt), frame);
    case Kind::kRequest:
      return decode_message<verbs::Request, kRequestBytes>(header, body, frame);
    case Kind::kResponse:
      return decode_message<verbs::Response, kResponseBytes>(header, body, frame);
    case Kind::kDatagram:
      return decode_message<verbs::Datagram, kDatagramBytes>(header, body, frame);
    case Kind::kPing:
      return complete(header, head_bytes, 0, Body(Ping{NetworkReader(body).take<std::uint64_t>()}), frame);
    case Kind::kGoodbye:
      return decode_text<Goodbye>(header, bytes, text_bytes(body, kGoodbyeTextBytesAt), frame);
  }
  return bad(Defect::kKind);
}

}  // namespace pvrdma::transport::wire
