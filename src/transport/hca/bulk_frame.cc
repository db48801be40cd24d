#include "transport/hca/bulk_frame.h"

#include <algorithm>

#include "base/network_order.h"
#include "transport/hca/introduction.h"
#include "transport/wire/format.h"

namespace pvrdma::transport::hca {
namespace {

enum class Kind : std::uint8_t {
  kLent = 0x81,
  kOffer = 0x82,
  kAnswer = 0x83,
  kStopped = 0x84,
  kLentAnswer = 0x85,
  kReturned = 0x86,
};

constexpr std::size_t kPrefixBytes = 8;  // length, kind, reserved, number of runs
constexpr std::size_t kKindAt = 4;
constexpr std::size_t kEndpointBytes = 12;
constexpr std::size_t kPairBytes = 8 + 2 * 16;
constexpr std::size_t kSaidBytes = kPrefixBytes + 8 + 4;  // sequence, id
constexpr std::size_t kOfferBytes = kSaidBytes + kPairBytes + kEndpointBytes;
constexpr std::size_t kAnswerBytes = kSaidBytes + kEndpointBytes;
constexpr std::size_t kReturnedBytes = kSaidBytes + 4;

NetworkWriter begin(BulkRoom& out, std::size_t bytes, Kind kind, std::size_t runs) {
  NetworkWriter writer(out);
  writer.put(static_cast<std::uint32_t>(bytes));
  writer.put(static_cast<std::uint8_t>(kind));
  writer.zeros(1);
  writer.put(static_cast<std::uint16_t>(runs));
  return writer;
}

NetworkWriter begin_said(BulkRoom& out, std::size_t bytes, Kind kind, std::uint64_t sequence,
                         std::uint32_t id) {
  NetworkWriter writer = begin(out, bytes, kind, 0);
  writer.put(sequence);
  writer.put(id);
  return writer;
}

void put(NetworkWriter& writer, const BulkEndpoint& end) {
  writer.put(end.qpn);
  writer.put(end.psn);
  writer.put(end.reads);
}

BulkEndpoint take_endpoint(NetworkReader& reader) {
  BulkEndpoint end;
  end.qpn = reader.take<std::uint32_t>();
  end.psn = reader.take<std::uint32_t>();
  end.reads = reader.take<std::uint32_t>();
  return end;
}

bool is_endpoint(const BulkEndpoint& end) {
  return end.qpn > 1 && end.qpn <= kMask24 && end.psn <= kMask24 && end.reads != 0 && end.reads <= kReadsMax;
}

BulkDecoded refused(std::string_view defect) {
  return {.bytes = 0, .defect = defect};
}

bool may_be_lent(const verbs::Request& request) {
  return !request.is_read_or_atomic();
}
bool may_be_lent(const verbs::Response& response) {
  return response.op == verbs::RequestOp::kRead && response.syndrome == verbs::Syndrome::kAck;
}

// Decodes a frame whose prefix is followed by nothing but the head and the runs of a `Message`.
template <typename Body, typename Message>
BulkDecoded decode_lent(std::span<const std::byte> rest, std::size_t run_count, std::size_t all,
                        BulkFrame& frame, Message Body::*message) {
  if (run_count == 0 || run_count > Runs::kMax || rest.size() < run_count * kRunBytes)
    return refused("its number of runs is invalid");
  const auto head = rest.first(rest.size() - run_count * kRunBytes);
  wire::Frame inner;
  const wire::Decoded decoded = wire::decode(head, inner);
  const auto* const found = std::get_if<Message>(&inner.body);
  if (decoded.state != wire::Decoded::State::kComplete || decoded.head_bytes != head.size() ||
      found == nullptr || !may_be_lent(*found))
    return refused("the lent message is invalid or must not be lent");
  Body& lent = frame.body.emplace<Body>();
  lent.segment = inner.segment;
  lent.*message = *found;
  NetworkReader reader(rest.subspan(head.size()));
  std::uint64_t bytes = 0;
  for (std::size_t i = 0; i < run_count; ++i) {
    Run run;
    run.address = reader.take<std::uint64_t>();
    run.bytes = reader.take<std::uint32_t>();
    run.rkey = reader.take<std::uint32_t>();
    if (run.bytes == 0 || run.address + run.bytes < run.address)
      return refused("one of its runs is empty or wraps around");
    bytes += run.bytes;
    static_cast<void>(lent.runs.append(run));
  }
  if (bytes != found->bytes) return refused("its runs are not as long as its payload");
  frame.sequence = inner.sequence;
  return {.bytes = all, .defect = {}};
}

template <typename Message>
std::span<const std::byte> encode(Kind kind, std::uint64_t sequence, SegmentId segment,
                                  const Message& message, const Runs& runs, BulkRoom& out) {
  wire::Head room;
  const auto head = wire::encode(sequence, segment, message, room);
  if (head.empty()) return {};
  const std::size_t bytes = kPrefixBytes + head.size() + runs.size() * kRunBytes;
  NetworkWriter writer = begin(out, bytes, kind, runs.size());
  writer.put_bytes(head.data(), head.size());
  for (const Run& run : runs.view()) {
    writer.put(run.address);
    writer.put(run.bytes);
    writer.put(run.rkey);
  }
  return std::span(out).first(bytes);
}

}  // namespace

bool Runs::append(const Run& run) {
  if (count_ != 0) {
    Run& last = runs_[count_ - 1];
    if (last.rkey == run.rkey && last.address + last.bytes == run.address) {
      last.bytes += run.bytes;
      return true;
    }
  }
  if (count_ == kMax) return false;
  runs_[count_++] = run;
  return true;
}

std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Request& request, const Runs& runs, BulkRoom& out) {
  return encode(Kind::kLent, sequence, segment, request, runs, out);
}

std::span<const std::byte> encode_lent(std::uint64_t sequence, SegmentId segment,
                                       const verbs::Response& response, const Runs& runs, BulkRoom& out) {
  return encode(Kind::kLentAnswer, sequence, segment, response, runs, out);
}

std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkOffer& offer, BulkRoom& out) {
  NetworkWriter writer = begin_said(out, kOfferBytes, Kind::kOffer, sequence, offer.id);
  const VmPair& pair = offer.stripe.pair;
  writer.put(pair.segment.dvs);
  writer.put(pair.segment.vlan);
  writer.put(offer.stripe.number);
  writer.put_bytes(pair.own.bytes.data(), pair.own.bytes.size());
  writer.put_bytes(pair.peer.bytes.data(), pair.peer.bytes.size());
  put(writer, offer.end);
  return std::span(out).first(kOfferBytes);
}

std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkAnswer& answer, BulkRoom& out) {
  NetworkWriter writer = begin_said(out, kAnswerBytes, Kind::kAnswer, sequence, answer.id);
  put(writer, answer.end);
  return std::span(out).first(kAnswerBytes);
}

std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkStopped& stopped, BulkRoom& out) {
  begin_said(out, kSaidBytes, Kind::kStopped, sequence, stopped.id);
  return std::span(out).first(kSaidBytes);
}

std::span<const std::byte> encode_bulk(std::uint64_t sequence, const BulkReturned& returned, BulkRoom& out) {
  NetworkWriter writer = begin_said(out, kReturnedBytes, Kind::kReturned, sequence, returned.id);
  writer.put(returned.count);
  return std::span(out).first(kReturnedBytes);
}

bool is_bulk_frame(std::span<const std::byte> bytes) {
  return bytes.size() >= kPrefixBytes &&
         (bytes[kKindAt] & std::byte{0x80}) != std::byte{0};  // lane frames use few kinds, none with this bit
}

BulkDecoded decode_bulk(std::span<const std::byte> bytes, BulkFrame& frame) {
  NetworkReader reader(bytes);
  const auto all = reader.take<std::uint32_t>();
  const auto kind = static_cast<Kind>(reader.take<std::uint8_t>());
  const auto reserved = reader.take<std::uint8_t>();
  const auto runs = reader.take<std::uint16_t>();
  if (all < kPrefixBytes || all > bytes.size()) return refused("it does not fit into its slot");
  if (reserved != 0) return refused("a reserved bit is set");
  const auto rest = bytes.subspan(kPrefixBytes, all - kPrefixBytes);
  if (kind == Kind::kLent) return decode_lent(rest, runs, all, frame, &Lent::request);
  if (kind == Kind::kLentAnswer) return decode_lent(rest, runs, all, frame, &LentAnswer::response);
  const std::size_t due = kind == Kind::kOffer      ? kOfferBytes
                          : kind == Kind::kAnswer   ? kAnswerBytes
                          : kind == Kind::kStopped  ? kSaidBytes
                          : kind == Kind::kReturned ? kReturnedBytes
                                                    : 0;
  if (due == 0) return refused("its kind is unknown");
  if (all != due || runs != 0) return refused("its length does not match its kind");
  NetworkReader said(rest);
  frame.sequence = said.take<std::uint64_t>();
  const auto id = said.take<std::uint32_t>();
  if (kind == Kind::kStopped) {
    frame.body = BulkStopped{id};
  } else if (kind == Kind::kReturned) {
    frame.body = BulkReturned{id, said.take<std::uint32_t>()};
  } else if (kind == Kind::kAnswer) {
    const BulkAnswer answer{.id = id, .end = take_endpoint(said)};
    if (answer.end != BulkEndpoint{} && !is_endpoint(answer.end)) return refused("its QP is invalid");
    frame.body = answer;
  } else {
    BulkOffer offer{.id = id, .stripe = {}, .end = {}};
    VmPair& pair = offer.stripe.pair;
    pair.segment.dvs = said.take<std::uint32_t>();
    pair.segment.vlan = said.take<std::uint16_t>();
    offer.stripe.number = said.take<std::uint16_t>();
    if (offer.stripe.number >= kStripes) return refused("its stripe does not exist");
    said.take_bytes(pair.own.bytes.data(), pair.own.bytes.size());
    said.take_bytes(pair.peer.bytes.data(), pair.peer.bytes.size());
    offer.end = take_endpoint(said);
    if (!is_endpoint(offer.end)) return refused("its QP is invalid");
    frame.body = offer;
  }
  return {.bytes = all, .defect = {}};
}

}  // namespace pvrdma::transport::hca
