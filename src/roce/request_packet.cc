#include "roce/request_packet.h"

#include <optional>

namespace pvrdma::roce {
namespace {

using verbs::RequestOp;

// What the opcode of a request means.
struct Meaning {
  RequestOp op;
  bool first;
  bool last;
};

std::optional<Meaning> meaning_of(Opcode opcode) {
  switch (opcode) {
    case Opcode::kSendFirst:
      return Meaning{RequestOp::kSend, true, false};
    case Opcode::kSendMiddle:
      return Meaning{RequestOp::kSend, false, false};
    case Opcode::kSendLast:
    case Opcode::kSendLastImmediate:
    case Opcode::kSendLastInvalidate:
      return Meaning{RequestOp::kSend, false, true};
    case Opcode::kSendOnly:
    case Opcode::kSendOnlyImmediate:
    case Opcode::kSendOnlyInvalidate:
      return Meaning{RequestOp::kSend, true, true};
    case Opcode::kWriteFirst:
      return Meaning{RequestOp::kWrite, true, false};
    case Opcode::kWriteMiddle:
      return Meaning{RequestOp::kWrite, false, false};
    case Opcode::kWriteLast:
    case Opcode::kWriteLastImmediate:
      return Meaning{RequestOp::kWrite, false, true};
    case Opcode::kWriteOnly:
    case Opcode::kWriteOnlyImmediate:
      return Meaning{RequestOp::kWrite, true, true};
    case Opcode::kReadRequest:
      return Meaning{RequestOp::kRead, true, true};
    case Opcode::kCompareSwap:
      return Meaning{RequestOp::kCompareSwap, true, true};
    case Opcode::kFetchAdd:
      return Meaning{RequestOp::kFetchAdd, true, true};
    default:
      return std::nullopt;
  }
}

tl::unexpected<std::string_view> refuse(std::string_view why) {
  return tl::unexpected<std::string_view>(why);
}

constexpr std::uint32_t kAtomicBytes = 8;

}  // namespace

bool is_request(Opcode opcode) {
  return opcode == Opcode::kUnsupportedRequest || meaning_of(opcode).has_value();
}

tl::expected<verbs::Request, std::string_view> to_request(const Packet& packet,
                                                          const verbs::Connection& connection,
                                                          const verbs::PacketsReceived& state) {
  const auto meaning = meaning_of(packet.opcode);
  if (!meaning) return refuse("a packet had an opcode that is not supported");
  if (has(packet.opcode, kReth) && packet.dma_bytes > kDmaBytesMax)
    return refuse("a packet asked for more than 2^31 bytes");
  const verbs::UnderWay& under_way = state.under_way;
  // All packets before this one were executed. Another path may have brought a part of this one, which is
  // executed again.
  const std::uint32_t offset = under_way.executed & ~(abi::mtu_bytes(state.mtu) - 1);
  const bool goes_on = offset != 0;
  if (meaning->first == goes_on || (goes_on && meaning->op != under_way.op))
    return refuse("a packet did not continue the message in progress");
  const auto bytes = static_cast<std::uint32_t>(packet.payload.size());
  if (!payload_fits(packet.opcode, bytes, abi::mtu_bytes(state.mtu)))
    return refuse("a packet's payload was longer or shorter than its opcode and the path MTU allow");

  verbs::Request request;
  request.from = connection.remote;
  request.to = connection.local;
  request.number = state.number;
  request.by_packet = true;
  request.psn = state.message_psn;
  request.op = meaning->op;
  request.solicited = packet.solicited;
  if (has(packet.opcode, kImmediate)) {
    request.extra = verbs::Extra::kImmediate;
    request.extra_value = packet.immediate;
  } else if (has(packet.opcode, kInvalidate)) {
    request.extra = verbs::Extra::kInvalidate;
    request.extra_value = packet.invalidate_rkey;
  }
  request.offset = offset;
  request.bytes = bytes;
  request.remote_addr = meaning->first ? packet.remote_addr : under_way.remote_addr;
  request.rkey = meaning->first ? packet.rkey : under_way.rkey;
  switch (meaning->op) {
    case RequestOp::kSend:
      if (bytes > ~0U - 1 - request.offset) return refuse("a send was too long");
      request.message_bytes = request.end() + (meaning->last ? 0 : 1);
      break;
    case RequestOp::kWrite:
      request.message_bytes = meaning->first ? packet.dma_bytes : under_way.message_bytes;
      if (bytes > request.message_bytes - request.offset || meaning->last != request.is_last())
        return refuse("a write had more or fewer bytes than its first packet announced");
      break;
    case RequestOp::kRead:
      request.message_bytes = request.bytes = packet.dma_bytes;
      break;
    case RequestOp::kCompareSwap:
    case RequestOp::kFetchAdd:
      request.message_bytes = request.bytes = kAtomicBytes;
      request.swap = packet.swap_or_add;
      request.compare_add = meaning->op == RequestOp::kFetchAdd ? packet.swap_or_add : packet.compare;
      break;
  }
  return request;
}

}  // namespace pvrdma::roce
