#include "transport/wire/rules.h"

#include <algorithm>

#include "vocabulary/name.h"

namespace pvrdma::transport::wire {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

constexpr std::uint32_t kQpnMax = 0xff'ffff;
constexpr std::uint32_t kFlowLabelMax = 0xf'ffff;
constexpr std::uint16_t kVlanMax = 4095;
constexpr std::uint8_t kRnrTimerMax = 31;
static_assert(kHostNameBytesMax == kNameCharsMax);

Defect defect_of(const verbs::Endpoint& from, const verbs::Endpoint& to) {
  return from.qpn.value > kQpnMax || to.qpn.value > kQpnMax ? Defect::kQpn : Defect::kNone;
}

bool is_known(RequestOp op) {
  switch (op) {
    case RequestOp::kSend:
    case RequestOp::kWrite:
    case RequestOp::kRead:
    case RequestOp::kCompareSwap:
    case RequestOp::kFetchAdd:
      return true;
  }
  return false;
}

bool is_known(Syndrome syndrome) {
  switch (syndrome) {
    case Syndrome::kAck:
    case Syndrome::kProgress:
    case Syndrome::kRnrNak:
    case Syndrome::kNakSequence:
    case Syndrome::kNakInvalidRequest:
    case Syndrome::kNakRemoteAccess:
    case Syndrome::kNakRemoteOperational:
      return true;
  }
  return false;
}

bool may_have(RequestOp op, Extra extra) {
  switch (extra) {
    case Extra::kNone:
      return true;
    case Extra::kImmediate:
      return op == RequestOp::kSend || op == RequestOp::kWrite;
    case Extra::kInvalidate:
      return op == RequestOp::kSend;
  }
  return false;
}

bool carries_data(const verbs::Response& response) {
  return response.op == RequestOp::kRead && response.syndrome == Syndrome::kAck;
}

}  // namespace

bool names_shards(const Hello& hello) {
  return hello.shard != ShardNumber{} || hello.from_shard != ShardNumber{};
}

bool is_sentence(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Defect defect_of(SegmentId segment) {
  return segment == SegmentId{} || segment.vlan > kVlanMax ? Defect::kSegment : Defect::kNone;
}

Defect defect_of(const verbs::Request& request) {
  if (const Defect defect = defect_of(request.from, request.to); defect != Defect::kNone) return defect;
  if (!is_known(request.op)) return Defect::kOp;
  if (!may_have(request.op, request.extra)) return Defect::kExtra;
  const bool inside = request.offset <= request.message_bytes &&
                      request.bytes <= request.message_bytes - request.offset &&
                      request.bytes <= verbs::kPieceBytesMax;
  return inside ? Defect::kNone : Defect::kRange;
}

bool carries_original(const verbs::Response& response) {
  return (response.op == RequestOp::kCompareSwap || response.op == RequestOp::kFetchAdd) &&
         response.syndrome == Syndrome::kAck;
}

Defect defect_of(const verbs::Response& response) {
  if (const Defect defect = defect_of(response.from, response.to); defect != Defect::kNone) return defect;
  if (!is_known(response.op)) return Defect::kOp;
  if (!is_known(response.syndrome)) return Defect::kSyndrome;
  if (response.rnr_timer > kRnrTimerMax) return Defect::kRnrTimer;
  const std::uint32_t limit = carries_data(response) ? verbs::kPieceBytesMax : 0;
  return response.bytes <= limit && response.bytes <= UINT32_MAX - response.offset ? Defect::kNone
                                                                                   : Defect::kRange;
}

Defect defect_of(const verbs::Datagram& datagram) {
  if (const Defect defect = defect_of(datagram.from, datagram.to); defect != Defect::kNone) return defect;
  if (datagram.extra != Extra::kNone && datagram.extra != Extra::kImmediate) return Defect::kExtra;
  if (datagram.bytes > wire::kDatagramBytesMax) return Defect::kDatagramBytes;
  if (datagram.flow_label > kFlowLabelMax) return Defect::kFlowLabel;
  if (datagram.roce != RoceVersion::kV1 && datagram.roce != RoceVersion::kV2) return Defect::kRoce;
  return Defect::kNone;
}

Defect defect_of(const Hello& hello) {
  if (!is_name(hello.host.view())) return Defect::kHostName;
  if (hello.lane == kCallLane) {
    if (names_shards(hello)) return Defect::kShard;
    return hello.lanes == 1 ? Defect::kNone : Defect::kLane;
  }
  return hello.lanes <= kLanesMax && hello.lane < hello.lanes ? Defect::kNone : Defect::kLane;
}

Defect defect_of(const Welcome& welcome) {
  return is_name(welcome.host.view()) ? Defect::kNone : Defect::kHostName;
}

Defect defect_of(const Reject& reject) {
  switch (reject.reason) {
    case RejectReason::kWrongVersion:
    case RejectReason::kUnknownHost:
    case RejectReason::kNotAllowed:
    case RejectReason::kWrongName:
    case RejectReason::kBadHello:
    case RejectReason::kNoRoom:
      return Defect::kNone;
  }
  return Defect::kReason;
}

Defect defect_of(const Goodbye& goodbye) {
  switch (goodbye.reason) {
    case GoodbyeReason::kStopping:
    case GoodbyeReason::kReconfigured:
    case GoodbyeReason::kReplaced:
    case GoodbyeReason::kBadFrame:
    case GoodbyeReason::kBadSequence:
    case GoodbyeReason::kSilent:
      return Defect::kNone;
  }
  return Defect::kReason;
}

std::string_view describe(Defect defect) {
  switch (defect) {
    case Defect::kNone:
      return "nothing is wrong with it";
    case Defect::kFrameBytes:
      return "its length does not match its kind and body";
    case Defect::kKind:
      return "its kind is unknown";
    case Defect::kReservedBits:
      return "reserved bits are set";
    case Defect::kUnusedField:
      return "a field that it does not use is not 0";
    case Defect::kSequence:
      return "it belongs to the handshake but is not the first of its connection";
    case Defect::kSegment:
      return "its switch or VLAN is invalid";
    case Defect::kMagic:
      return "it does not begin like a frame of this protocol";
    case Defect::kVersion:
      return "it is of another version of the protocol";
    case Defect::kHostName:
      return "its host name is invalid";
    case Defect::kLane:
      return "its lane number or its number of lanes is invalid";
    case Defect::kShard:
      return "it names shards where it must not, or only shard 0 where it need not";
    case Defect::kReason:
      return "its reason is unknown";
    case Defect::kSentence:
      return "its sentence is not visible ASCII";
    case Defect::kQpn:
      return "a QP number has more than 24 bits";
    case Defect::kNumber:
      return "its message number has more than 24 bits";
    case Defect::kPsn:
      return "its PSN has more than 24 bits";
    case Defect::kOp:
      return "its operation is unknown";
    case Defect::kExtra:
      return "its operation does not allow that extra";
    case Defect::kRange:
      return "it has bytes beyond its message's end, or more than a piece may have";
    case Defect::kSyndrome:
      return "its syndrome is unknown";
    case Defect::kRnrTimer:
      return "its RNR timer is above 31";
    case Defect::kDatagramBytes:
      return "its datagram is longer than 4096 bytes";
    case Defect::kFlowLabel:
      return "its flow label has more than 20 bits";
    case Defect::kRoce:
      return "its RoCE version is unknown";
  }
  return "it has an unknown fault";
}

}  // namespace pvrdma::transport::wire
