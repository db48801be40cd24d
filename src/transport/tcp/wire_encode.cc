#include <cstring>
#include <type_traits>

#include "transport/tcp/wire_format.h"
#include "transport/tcp/wire_rules.h"

namespace pvrdma::transport::tcp {
namespace {

using verbs::Extra;
using verbs::RequestOp;

// Fields one after the other, in network order. The caller has made sure of the room.
class Writer {
 public:
  explicit Writer(std::byte* at) : at_(at) {}

  template <typename T>
  void put(T value) {
    static_assert(std::is_unsigned_v<T>);
    for (std::size_t i = sizeof value; i-- > 0;) *at_++ = static_cast<std::byte>(value >> (8 * i));
  }
  void put(const std::array<std::uint8_t, 16>& bytes) {
    std::memcpy(at_, bytes.data(), bytes.size());
    at_ += bytes.size();
  }
  void put(std::string_view text) {
    std::memcpy(at_, text.data(), text.size());
    at_ += text.size();
  }

 private:
  std::byte* at_;
};

Writer begin(Head& out, std::size_t head_bytes, std::uint32_t payload, Kind kind, SegmentId segment,
             std::uint64_t sequence) {
  Writer writer(out.data());
  writer.put(static_cast<std::uint32_t>(head_bytes) + payload);
  writer.put(static_cast<std::uint8_t>(kind));
  writer.put(std::uint8_t{0});
  writer.put(segment.vlan);
  writer.put(segment.dvs);
  writer.put(std::uint32_t{0});
  writer.put(sequence);
  return writer;
}

void put_ends(Writer& writer, const verbs::Endpoint& from, const verbs::Endpoint& to) {
  writer.put(from.gid.bytes);
  writer.put(to.gid.bytes);
  writer.put(from.qpn.value);
  writer.put(to.qpn.value);
}

}  // namespace

std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Request& request,
                                  Head& out) {
  if (first_of({fault_of(segment), fault_of(request)}) != Fault::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kRequestBytes;
  Writer writer = begin(out, kBytes, payload_bytes(request), Kind::kRequest, segment, sequence);
  put_ends(writer, request.from, request.to);
  writer.put(request.number.value);
  writer.put(static_cast<std::uint8_t>(request.op));
  writer.put(static_cast<std::uint8_t>(request.extra));
  writer.put(request.solicited ? kSolicitedBit : std::uint8_t{0});
  writer.put(std::uint8_t{0});
  writer.put(request.extra != Extra::kNone ? request.extra_value : 0U);
  writer.put(request.message_bytes);
  writer.put(request.offset);
  writer.put(request.bytes);
  const bool names_memory = request.op != RequestOp::kSend;
  writer.put(names_memory ? request.remote_addr : std::uint64_t{0});
  writer.put(names_memory ? request.rkey : 0U);
  writer.put(request.psn.value);
  writer.put(request.is_atomic() ? request.compare_add : std::uint64_t{0});
  writer.put(request.op == RequestOp::kCompareSwap ? request.swap : std::uint64_t{0});
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Response& response,
                                  Head& out) {
  if (first_of({fault_of(segment), fault_of(response)}) != Fault::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kResponseBytes;
  Writer writer = begin(out, kBytes, payload_bytes(response), Kind::kResponse, segment, sequence);
  put_ends(writer, response.from, response.to);
  writer.put(response.number.value);
  writer.put(static_cast<std::uint8_t>(response.op));
  writer.put(static_cast<std::uint8_t>(response.syndrome));
  writer.put(response.rnr_timer);
  writer.put(std::uint8_t{0});
  writer.put(response.offset);
  writer.put(response.bytes);
  writer.put(carries_original(response) ? response.atomic_original : std::uint64_t{0});
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Datagram& datagram,
                                  Head& out) {
  if (first_of({fault_of(segment), fault_of(datagram)}) != Fault::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kDatagramBytes;
  Writer writer = begin(out, kBytes, payload_bytes(datagram), Kind::kDatagram, segment, sequence);
  put_ends(writer, datagram.from, datagram.to);
  writer.put(datagram.qkey);
  writer.put(static_cast<std::uint8_t>(datagram.extra));
  writer.put(datagram.solicited ? kSolicitedBit : std::uint8_t{0});
  writer.put(static_cast<std::uint8_t>(datagram.roce));
  writer.put(datagram.traffic_class);
  writer.put(datagram.extra != Extra::kNone ? datagram.extra_value : 0U);
  writer.put(datagram.bytes);
  writer.put(datagram.flow_label);
  writer.put(datagram.hop_limit);
  writer.put(std::uint8_t{0});
  writer.put(std::uint16_t{0});
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(const Hello& hello, Head& out) {
  if (fault_of(hello) != Fault::kNone) return {};
  const std::string_view name = hello.host.view();
  const std::size_t bytes = kHeaderBytes + kHelloBytes + name.size();
  Writer writer = begin(out, bytes, 0, Kind::kHello, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(kProtocolVersion);
  writer.put(hello.lane);
  writer.put(hello.lanes);
  writer.put(static_cast<std::uint16_t>(name.size()));
  writer.put(hello.id);
  writer.put(name);
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(const Welcome& welcome, Head& out) {
  if (fault_of(welcome) != Fault::kNone) return {};
  const std::string_view name = welcome.host.view();
  const std::size_t bytes = kHeaderBytes + kHelloBytes + name.size();
  Writer writer = begin(out, bytes, 0, Kind::kWelcome, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(kProtocolVersion);
  writer.put(std::uint32_t{0});
  writer.put(static_cast<std::uint16_t>(name.size()));
  writer.put(welcome.id);
  writer.put(name);
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(const Reject& reject, Head& out) {
  if (fault_of(reject) != Fault::kNone) return {};
  const std::string_view text = reject.sentence.view();
  const std::size_t bytes = kHeaderBytes + kRejectBytes + text.size();
  Writer writer = begin(out, bytes, 0, Kind::kReject, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(reject.version);
  writer.put(static_cast<std::uint16_t>(reject.reason));
  writer.put(std::uint16_t{0});
  writer.put(static_cast<std::uint16_t>(text.size()));
  writer.put(text);
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, const Ping& ping, Head& out) {
  constexpr std::size_t kBytes = kHeaderBytes + kPingBytes;
  Writer writer = begin(out, kBytes, 0, Kind::kPing, SegmentId{}, sequence);
  writer.put(ping.frames_received);
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, const Goodbye& goodbye, Head& out) {
  if (fault_of(goodbye) != Fault::kNone) return {};
  const std::string_view text = goodbye.sentence.view();
  const std::size_t bytes = kHeaderBytes + kGoodbyeBytes + text.size();
  Writer writer = begin(out, bytes, 0, Kind::kGoodbye, SegmentId{}, sequence);
  writer.put(static_cast<std::uint16_t>(goodbye.reason));
  writer.put(static_cast<std::uint16_t>(text.size()));
  writer.put(text);
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(const Frame& frame, Head& out) {
  return std::visit(
      [&](const auto& body) {
        using Said = std::remove_cvref_t<decltype(body)>;
        if constexpr (requires { encode(frame.sequence, frame.segment, body, out); }) {
          return encode(frame.sequence, frame.segment, body, out);
        } else if constexpr (std::is_same_v<Said, Ping> || std::is_same_v<Said, Goodbye>) {
          return encode(frame.sequence, body, out);
        } else {
          return encode(body, out);
        }
      },
      frame.body);
}

}  // namespace pvrdma::transport::tcp
