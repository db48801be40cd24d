#include <type_traits>

#include "base/network_order.h"
#include "transport/wire/format.h"
#include "transport/wire/rules.h"

namespace pvrdma::transport::wire {
namespace {

using verbs::Extra;
using verbs::RequestOp;

NetworkWriter begin(Head& out, std::size_t head_bytes, std::uint32_t payload, Kind kind, SegmentId segment,
                    std::uint64_t sequence) {
  NetworkWriter writer(out);
  writer.put(static_cast<std::uint32_t>(head_bytes) + payload);
  writer.put(static_cast<std::uint8_t>(kind));
  writer.zeros(1);
  writer.put(segment.vlan);
  writer.put(segment.dvs);
  writer.zeros(4);
  writer.put(sequence);
  return writer;
}

void put_ends(NetworkWriter& writer, const verbs::Endpoint& from, const verbs::Endpoint& to) {
  writer.put_bytes(from.gid.bytes.data(), from.gid.bytes.size());
  writer.put_bytes(to.gid.bytes.data(), to.gid.bytes.size());
  writer.put(from.qpn.value);
  writer.put(to.qpn.value);
}

}  // namespace

std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Request& request,
                                  Head& out) {
  if (first_of({defect_of(segment), defect_of(request)}) != Defect::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kRequestBytes;
  NetworkWriter writer = begin(out, kBytes, payload_bytes(request), Kind::kRequest, segment, sequence);
  put_ends(writer, request.from, request.to);
  writer.put(request.number.value);
  writer.put(static_cast<std::uint8_t>(request.op));
  writer.put(static_cast<std::uint8_t>(request.extra));
  writer.put(request.solicited ? kSolicitedBit : std::uint8_t{0});
  writer.zeros(1);
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
  if (first_of({defect_of(segment), defect_of(response)}) != Defect::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kResponseBytes;
  NetworkWriter writer = begin(out, kBytes, payload_bytes(response), Kind::kResponse, segment, sequence);
  put_ends(writer, response.from, response.to);
  writer.put(response.number.value);
  writer.put(static_cast<std::uint8_t>(response.op));
  writer.put(static_cast<std::uint8_t>(response.syndrome));
  writer.put(response.rnr_timer);
  writer.zeros(1);
  writer.put(response.offset);
  writer.put(response.bytes);
  writer.put(carries_original(response) ? response.atomic_original : std::uint64_t{0});
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, SegmentId segment, const verbs::Datagram& datagram,
                                  Head& out) {
  if (first_of({defect_of(segment), defect_of(datagram)}) != Defect::kNone) return {};
  constexpr std::size_t kBytes = kHeaderBytes + kDatagramBytes;
  NetworkWriter writer = begin(out, kBytes, payload_bytes(datagram), Kind::kDatagram, segment, sequence);
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
  writer.zeros(3);
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(const Hello& hello, Head& out) {
  if (defect_of(hello) != Defect::kNone) return {};
  const std::string_view name = hello.host.view();
  const bool shards = names_shards(hello);
  const std::size_t bytes = kHeaderBytes + (shards ? kShardHelloBytes : kHelloBytes) + name.size();
  NetworkWriter writer = begin(out, bytes, 0, Kind::kHello, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(shards ? kShardHelloVersion : kProtocolVersion);
  writer.put(hello.lane);
  writer.put(hello.lanes);
  writer.put(static_cast<std::uint16_t>(name.size()));
  writer.put_bytes(hello.id.data(), hello.id.size());
  if (shards) {
    writer.put(hello.shard.value);
    writer.put(hello.from_shard.value);
  }
  writer.put_bytes(name.data(), name.size());
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(const Welcome& welcome, Head& out) {
  if (defect_of(welcome) != Defect::kNone) return {};
  const std::string_view name = welcome.host.view();
  const std::size_t bytes = kHeaderBytes + kHelloBytes + name.size();
  NetworkWriter writer = begin(out, bytes, 0, Kind::kWelcome, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(kProtocolVersion);
  writer.zeros(4);
  writer.put(static_cast<std::uint16_t>(name.size()));
  writer.put_bytes(welcome.id.data(), welcome.id.size());
  writer.put_bytes(name.data(), name.size());
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(const Reject& reject, Head& out) {
  if (defect_of(reject) != Defect::kNone) return {};
  const std::string_view text = reject.sentence.view();
  const std::size_t bytes = kHeaderBytes + kRejectBytes + text.size();
  NetworkWriter writer = begin(out, bytes, 0, Kind::kReject, SegmentId{}, 0);
  writer.put(kMagic);
  writer.put(reject.version);
  writer.put(static_cast<std::uint16_t>(reject.reason));
  writer.zeros(2);
  writer.put(static_cast<std::uint16_t>(text.size()));
  writer.put_bytes(text.data(), text.size());
  return std::span(out).first(bytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, const Ping& ping, Head& out) {
  constexpr std::size_t kBytes = kHeaderBytes + kPingBytes;
  NetworkWriter writer = begin(out, kBytes, 0, Kind::kPing, SegmentId{}, sequence);
  writer.put(ping.frames_received);
  return std::span(out).first(kBytes);
}

std::span<const std::byte> encode(std::uint64_t sequence, const Goodbye& goodbye, Head& out) {
  if (defect_of(goodbye) != Defect::kNone) return {};
  const std::string_view text = goodbye.sentence.view();
  const std::size_t bytes = kHeaderBytes + kGoodbyeBytes + text.size();
  NetworkWriter writer = begin(out, bytes, 0, Kind::kGoodbye, SegmentId{}, sequence);
  writer.put(static_cast<std::uint16_t>(goodbye.reason));
  writer.put(static_cast<std::uint16_t>(text.size()));
  writer.put_bytes(text.data(), text.size());
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

}  // namespace pvrdma::transport::wire
