#include <array>
#include <bit>
#include <cstring>
#include <type_traits>

#include "transport/tcp/wire_format.h"
#include "transport/tcp/wire_rules.h"

namespace pvrdma::transport::tcp {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

class Reader {
 public:
  explicit Reader(const std::byte* at) : at_(at) {}

  template <typename T>
  T get() {
    T value;
    std::memcpy(&value, at_, sizeof value);
    at_ += sizeof value;
    if constexpr (std::is_integral_v<T>) {
      static_assert(std::is_unsigned_v<T> && std::endian::native == std::endian::little);
      if constexpr (sizeof value == 2) value = __builtin_bswap16(value);
      if constexpr (sizeof value == 4) value = __builtin_bswap32(value);
      if constexpr (sizeof value == 8) value = __builtin_bswap64(value);
    }
    return value;
  }
  std::string_view text(std::size_t size) {
    const std::string_view text(reinterpret_cast<const char*>(at_), size);
    at_ += size;
    return text;
  }

 private:
  const std::byte* at_;
};

// Readers of bodies. Each gets a body whose bytes are all there and fills `out`.

void get_ends(Reader& reader, verbs::Endpoint& from, verbs::Endpoint& to) {
  from.gid.bytes = reader.get<std::array<std::uint8_t, 16>>();
  to.gid.bytes = reader.get<std::array<std::uint8_t, 16>>();
  from.qpn = verbs::Qpn(reader.get<std::uint32_t>());
  to.qpn = verbs::Qpn(reader.get<std::uint32_t>());
}

// Serials are 24 bits in memory whatever is put in; so this one is looked at before.
template <typename Serial>
Fault get_serial(Reader& reader, Serial& serial, Fault fault) {
  const auto value = reader.get<std::uint32_t>();
  serial = Serial(value);
  return value > Serial::kMask ? fault : Fault::kNone;
}

Fault get_bits(Reader& reader, bool& solicited) {
  const auto bits = reader.get<std::uint8_t>();
  solicited = (bits & kSolicitedBit) != 0;
  return (bits & ~kSolicitedBit) != 0 ? Fault::kReservedBits : Fault::kNone;
}

Fault reserved(std::uint64_t value) {
  return value != 0 ? Fault::kReservedBits : Fault::kNone;
}
Fault unused(bool is_zero) {
  return is_zero ? Fault::kNone : Fault::kUnusedField;
}

Fault get(Reader reader, verbs::Request& out) {
  get_ends(reader, out.from, out.to);
  const Fault number = get_serial(reader, out.number, Fault::kNumber);
  out.op = static_cast<RequestOp>(reader.get<std::uint8_t>());
  out.extra = static_cast<Extra>(reader.get<std::uint8_t>());
  const Fault bits = get_bits(reader, out.solicited);
  const Fault gap = reserved(reader.get<std::uint8_t>());
  out.extra_value = reader.get<std::uint32_t>();
  out.message_bytes = reader.get<std::uint32_t>();
  out.offset = reader.get<std::uint32_t>();
  out.bytes = reader.get<std::uint32_t>();
  out.remote_addr = reader.get<std::uint64_t>();
  out.rkey = reader.get<std::uint32_t>();
  const Fault psn = get_serial(reader, out.psn, Fault::kPsn);
  out.compare_add = reader.get<std::uint64_t>();
  out.swap = reader.get<std::uint64_t>();
  return first_of({number, psn, bits, gap, fault_of(out),
                   unused(out.extra != Extra::kNone || out.extra_value == 0),
                   unused(out.op != RequestOp::kSend || (out.remote_addr == 0 && out.rkey == 0)),
                   unused(out.is_atomic() || out.compare_add == 0),
                   unused(out.op == RequestOp::kCompareSwap || out.swap == 0)});
}

Fault get(Reader reader, verbs::Response& out) {
  get_ends(reader, out.from, out.to);
  const Fault number = get_serial(reader, out.number, Fault::kNumber);
  out.op = static_cast<RequestOp>(reader.get<std::uint8_t>());
  out.syndrome = static_cast<Syndrome>(reader.get<std::uint8_t>());
  out.rnr_timer = reader.get<std::uint8_t>();
  const Fault gap = reserved(reader.get<std::uint8_t>());
  out.offset = reader.get<std::uint32_t>();
  out.bytes = reader.get<std::uint32_t>();
  out.atomic_original = reader.get<std::uint64_t>();
  return first_of({number, gap, fault_of(out), unused(carries_original(out) || out.atomic_original == 0)});
}

Fault get(Reader reader, verbs::Datagram& out) {
  get_ends(reader, out.from, out.to);
  out.qkey = reader.get<std::uint32_t>();
  out.extra = static_cast<Extra>(reader.get<std::uint8_t>());
  const Fault bits = get_bits(reader, out.solicited);
  out.roce = static_cast<RoceVersion>(reader.get<std::uint8_t>());
  out.traffic_class = reader.get<std::uint8_t>();
  out.extra_value = reader.get<std::uint32_t>();
  out.bytes = reader.get<std::uint32_t>();
  out.flow_label = reader.get<std::uint32_t>();
  out.hop_limit = reader.get<std::uint8_t>();
  const Fault gap = first_of({reserved(reader.get<std::uint8_t>()), reserved(reader.get<std::uint16_t>())});
  return first_of({bits, gap, fault_of(out), unused(out.extra != Extra::kNone || out.extra_value == 0)});
}

// Of Hello, Welcome and Reject, after magic and version; `at` is the body's start.
std::size_t text_bytes(const std::byte* at) {
  return Reader(at + 14).get<std::uint16_t>();
}

Fault get(Reader reader, Hello& out, std::size_t name_bytes) {
  reader.text(kVersionEndBytes);
  out.lane = reader.get<std::uint16_t>();
  out.lanes = reader.get<std::uint16_t>();
  reader.get<std::uint16_t>();
  out.id = reader.get<HelloId>();
  out.host = HostName(reader.text(name_bytes));
  return fault_of(out);
}

Fault get(Reader reader, Welcome& out, std::size_t name_bytes) {
  reader.text(kVersionEndBytes);
  const Fault gap = reserved(reader.get<std::uint32_t>());
  reader.get<std::uint16_t>();
  out.id = reader.get<HelloId>();
  out.host = HostName(reader.text(name_bytes));
  return first_of({gap, fault_of(out)});
}

Fault get(Reader reader, Reject& out, std::size_t sentence_bytes) {
  reader.get<std::uint64_t>();
  out.version = reader.get<std::uint16_t>();
  out.reason = static_cast<RejectReason>(reader.get<std::uint16_t>());
  const Fault gap = reserved(reader.get<std::uint16_t>());
  reader.get<std::uint16_t>();
  const std::string_view text = reader.text(sentence_bytes);
  out.sentence = Sentence(text);
  return first_of({gap, fault_of(out), is_sentence(text) ? Fault::kNone : Fault::kSentence});
}

Fault get(Reader reader, Goodbye& out, std::size_t sentence_bytes) {
  out.reason = static_cast<GoodbyeReason>(reader.get<std::uint16_t>());
  reader.get<std::uint16_t>();
  const std::string_view text = reader.text(sentence_bytes);
  out.sentence = Sentence(text);
  return first_of({fault_of(out), is_sentence(text) ? Fault::kNone : Fault::kSentence});
}

struct Header {
  std::uint32_t frame_bytes;
  Kind kind;
  SegmentId segment;
  std::uint64_t sequence;
};

// Bounds of a frame's length, by kind.
struct Lengths {
  std::size_t body;     // without text
  std::size_t text;     // at most
  std::size_t payload;  // at most
};

constexpr std::array<Lengths, std::variant_size_v<Body>> kLengths{{
    {kHelloBytes, kHostNameBytesMax, 0},
    {kHelloBytes, kHostNameBytesMax, 0},
    {kRejectBytes, kSentenceBytesMax, 0},
    {kRequestBytes, 0, verbs::kPieceBytesMax},
    {kResponseBytes, 0, verbs::kPieceBytesMax},
    {kDatagramBytes, 0, tcp::kDatagramBytesMax},
    {kPingBytes, 0, 0},
    {kGoodbyeBytes, kSentenceBytesMax, 0},
}};

bool is_known(Kind kind) {
  return kind >= Kind::kHello && kind <= Kind::kGoodbye;
}
bool is_handshake(Kind kind) {
  return kind <= Kind::kReject;
}
bool is_message(Kind kind) {
  return kind >= Kind::kRequest && kind <= Kind::kDatagram;
}
const Lengths& lengths_of(Kind kind) {
  return kLengths[static_cast<std::size_t>(kind) - 1];
}

Fault get(Reader reader, Header& out) {
  out.frame_bytes = reader.get<std::uint32_t>();
  out.kind = static_cast<Kind>(reader.get<std::uint8_t>());
  if (!is_known(out.kind)) return Fault::kKind;
  const Fault flags = reserved(reader.get<std::uint8_t>());
  out.segment.vlan = reader.get<std::uint16_t>();
  out.segment.dvs = reader.get<std::uint32_t>();
  const Fault gap = reserved(reader.get<std::uint32_t>());
  out.sequence = reader.get<std::uint64_t>();
  const Fault segment = is_message(out.kind) ? fault_of(out.segment) : unused(out.segment == SegmentId{});
  const Fault sequence = is_handshake(out.kind) && out.sequence != 0 ? Fault::kSequence : Fault::kNone;
  return first_of({flags, gap, segment, sequence});
}

// Another version's hello may have another length: so lengths are looked at after the version.
Fault fault_of_length(const Header& header) {
  const Lengths& lengths = lengths_of(header.kind);
  const std::size_t shortest = kHeaderBytes + lengths.body;
  const bool fits =
      header.frame_bytes >= shortest && header.frame_bytes <= shortest + lengths.text + lengths.payload;
  return fits ? Fault::kNone : Fault::kFrameBytes;
}

Decoded bad(Fault fault, std::uint16_t version = 0) {
  return {.state = Decoded::State::kBad, .fault = fault, .version = version};
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

// Kinds with a payload behind a body of fixed size.
template <typename Message>
Decoded decode_message(const Header& header, const std::byte* body, Frame& frame) {
  const std::size_t head_bytes = kHeaderBytes + lengths_of(header.kind).body;
  Message message;
  if (const Fault fault = get(Reader(body), message); fault != Fault::kNone) return bad(fault);
  const std::uint32_t payload = payload_bytes(message);
  if (header.frame_bytes != head_bytes + payload) return bad(Fault::kFrameBytes);
  return complete(header, head_bytes, payload, Body(message), frame);
}

// Kinds that end in a text, which `bytes` may not have whole yet.
template <typename Said>
Decoded decode_text(const Header& header, std::span<const std::byte> bytes, std::size_t text_size,
                    Frame& frame) {
  const Lengths& lengths = lengths_of(header.kind);
  const std::size_t head_bytes = kHeaderBytes + lengths.body + text_size;
  if (text_size > lengths.text || header.frame_bytes != head_bytes) return bad(Fault::kFrameBytes);
  if (bytes.size() < head_bytes) return need(head_bytes);
  Said said;
  if (const Fault fault = get(Reader(bytes.data() + kHeaderBytes), said, text_size); fault != Fault::kNone)
    return bad(fault);
  return complete(header, head_bytes, 0, Body(said), frame);
}

}  // namespace

Decoded decode(std::span<const std::byte> bytes, Frame& frame) {
  if (bytes.size() < kHeaderBytes) return need(kHeaderBytes);
  Header header{};
  if (const Fault fault = get(Reader(bytes.data()), header); fault != Fault::kNone) return bad(fault);

  const std::byte* const body = bytes.data() + kHeaderBytes;
  if (is_handshake(header.kind)) {
    constexpr std::size_t kEnd = kHeaderBytes + kVersionEndBytes;
    if (bytes.size() < kEnd) return need(kEnd);
    Reader reader(body);
    if (reader.get<std::uint64_t>() != kMagic) return bad(Fault::kMagic);
    const auto version = reader.get<std::uint16_t>();
    if (version != kProtocolVersion && header.kind != Kind::kReject) return bad(Fault::kVersion, version);
  }
  if (const Fault fault = fault_of_length(header); fault != Fault::kNone) return bad(fault);
  const std::size_t head_bytes = kHeaderBytes + lengths_of(header.kind).body;
  if (bytes.size() < head_bytes) return need(head_bytes);

  switch (header.kind) {
    case Kind::kHello:
      return decode_text<Hello>(header, bytes, text_bytes(body), frame);
    case Kind::kWelcome:
      return decode_text<Welcome>(header, bytes, text_bytes(body), frame);
    case Kind::kReject:
      return decode_text<Reject>(header, bytes, text_bytes(body), frame);
    case Kind::kRequest:
      return decode_message<verbs::Request>(header, body, frame);
    case Kind::kResponse:
      return decode_message<verbs::Response>(header, body, frame);
    case Kind::kDatagram:
      return decode_message<verbs::Datagram>(header, body, frame);
    case Kind::kPing:
      return complete(header, head_bytes, 0, Body(Ping{Reader(body).get<std::uint64_t>()}), frame);
    case Kind::kGoodbye:
      return decode_text<Goodbye>(header, bytes, Reader(body + 2).get<std::uint16_t>(), frame);
  }
  return bad(Fault::kKind);
}

}  // namespace pvrdma::transport::tcp
