#include "transport/tcp/wire_rules.h"

#include <algorithm>

#include "base/name.h"

namespace pvrdma::transport::tcp {
namespace {

using verbs::Extra;
using verbs::RequestOp;
using verbs::Syndrome;

constexpr std::uint32_t kQpnMax = 0xff'ffff;
constexpr std::uint32_t kFlowLabelMax = 0xf'ffff;
constexpr std::uint16_t kVlanMax = 4095;
constexpr std::uint8_t kRnrTimerMax = 31;
static_assert(kHostNameBytesMax == kNameCharsMax);

Fault fault_of(const verbs::Endpoint& from, const verbs::Endpoint& to) {
  return from.qpn.value > kQpnMax || to.qpn.value > kQpnMax ? Fault::kQpn : Fault::kNone;
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

bool is_sentence(std::string_view text) {
  return std::all_of(text.begin(), text.end(), [](char c) { return c >= ' ' && c <= '~'; });
}

Fault fault_of(SegmentId segment) {
  return segment == SegmentId{} || segment.vlan > kVlanMax ? Fault::kSegment : Fault::kNone;
}

Fault fault_of(const verbs::Request& request) {
  if (const Fault fault = fault_of(request.from, request.to); fault != Fault::kNone) return fault;
  if (!is_known(request.op)) return Fault::kOp;
  if (!may_have(request.op, request.extra)) return Fault::kExtra;
  const bool inside = request.offset <= request.message_bytes &&
                      request.bytes <= request.message_bytes - request.offset &&
                      request.bytes <= verbs::kPieceBytesMax;
  return inside ? Fault::kNone : Fault::kRange;
}

bool carries_original(const verbs::Response& response) {
  return (response.op == RequestOp::kCompareSwap || response.op == RequestOp::kFetchAdd) &&
         response.syndrome == Syndrome::kAck;
}

Fault fault_of(const verbs::Response& response) {
  if (const Fault fault = fault_of(response.from, response.to); fault != Fault::kNone) return fault;
  if (!is_known(response.op)) return Fault::kOp;
  if (!is_known(response.syndrome)) return Fault::kSyndrome;
  if (response.rnr_timer > kRnrTimerMax) return Fault::kRnrTimer;
  const std::uint32_t limit = carries_data(response) ? verbs::kPieceBytesMax : 0;
  return response.bytes <= limit && response.bytes <= UINT32_MAX - response.offset ? Fault::kNone
                                                                                   : Fault::kRange;
}

Fault fault_of(const verbs::Datagram& datagram) {
  if (const Fault fault = fault_of(datagram.from, datagram.to); fault != Fault::kNone) return fault;
  if (datagram.extra != Extra::kNone && datagram.extra != Extra::kImmediate) return Fault::kExtra;
  if (datagram.bytes > tcp::kDatagramBytesMax) return Fault::kDatagramBytes;
  if (datagram.flow_label > kFlowLabelMax) return Fault::kFlowLabel;
  if (datagram.roce != RoceVersion::kV1 && datagram.roce != RoceVersion::kV2) return Fault::kRoce;
  return Fault::kNone;
}

Fault fault_of(const Hello& hello) {
  if (!is_name(hello.host.view())) return Fault::kHostName;
  if (hello.lane == kCallLane) return hello.lanes == 1 ? Fault::kNone : Fault::kLane;
  return hello.lanes <= kLanesMax && hello.lane < hello.lanes ? Fault::kNone : Fault::kLane;
}

Fault fault_of(const Welcome& welcome) {
  return is_name(welcome.host.view()) ? Fault::kNone : Fault::kHostName;
}

Fault fault_of(const Reject& reject) {
  switch (reject.reason) {
    case RejectReason::kWrongVersion:
    case RejectReason::kUnknownHost:
    case RejectReason::kNotAllowed:
    case RejectReason::kWrongName:
    case RejectReason::kBadHello:
    case RejectReason::kNoRoom:
      return Fault::kNone;
  }
  return Fault::kReason;
}

Fault fault_of(const Goodbye& goodbye) {
  switch (goodbye.reason) {
    case GoodbyeReason::kStopping:
    case GoodbyeReason::kReconfigured:
    case GoodbyeReason::kReplaced:
    case GoodbyeReason::kBadFrame:
    case GoodbyeReason::kBadSequence:
    case GoodbyeReason::kSilent:
      return Fault::kNone;
  }
  return Fault::kReason;
}

std::string_view describe(Fault fault) {
  switch (fault) {
    case Fault::kNone:
      return "nothing is wrong with it";
    case Fault::kFrameBytes:
      return "its length is not what its kind and body lead to";
    case Fault::kKind:
      return "its kind is unknown";
    case Fault::kReservedBits:
      return "reserved bits are set";
    case Fault::kUnusedField:
      return "a field that it does not use is not 0";
    case Fault::kSequence:
      return "it belongs to the handshake but is not the first of its connection";
    case Fault::kSegment:
      return "its switch or VLAN cannot be";
    case Fault::kMagic:
      return "it does not begin as this protocol does";
    case Fault::kVersion:
      return "it is of another version of the protocol";
    case Fault::kHostName:
      return "its host name is no name";
    case Fault::kLane:
      return "its lane is not one of those it counts, or it counts too many";
    case Fault::kReason:
      return "its reason is unknown";
    case Fault::kSentence:
      return "its sentence is not visible ASCII";
    case Fault::kQpn:
      return "a QP number has more than 24 bits";
    case Fault::kNumber:
      return "its message number has more than 24 bits";
    case Fault::kPsn:
      return "its PSN has more than 24 bits";
    case Fault::kOp:
      return "its operation is unknown";
    case Fault::kExtra:
      return "its operation cannot have that extra";
    case Fault::kRange:
      return "it has bytes beyond its message's end, or more than a piece may have";
    case Fault::kSyndrome:
      return "its syndrome is unknown";
    case Fault::kRnrTimer:
      return "its RNR timer is above 31";
    case Fault::kDatagramBytes:
      return "its datagram is longer than 4096 bytes";
    case Fault::kFlowLabel:
      return "its flow label has more than 20 bits";
    case Fault::kRoce:
      return "its RoCE version is unknown";
  }
  return "it is wrong in an unknown way";
}

}  // namespace pvrdma::transport::tcp
