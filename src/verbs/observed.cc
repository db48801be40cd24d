#include "verbs/observed.h"

#include <algorithm>

#include "verbs/engine_impl.h"

namespace pvrdma::verbs {
namespace {

// The packet that a response stands for. The message that it answers has `message_bytes` bytes and begins at
// PSN `first`.
Psn packet_of(const Response& response, Psn first, std::uint32_t message_bytes, abi::Mtu mtu) {
  const std::uint32_t whole = packet_count(message_bytes, mtu);
  const std::uint32_t at = std::min(response.offset >> abi::mtu_shift(mtu), whole - 1);
  switch (response.syndrome) {
    case Syndrome::kAck:
      return first + (response.op == RequestOp::kRead ? at : whole - 1);
    case Syndrome::kProgress:  // confirms everything before it
      return first + at + Psn::kMask;
    case Syndrome::kRnrNak:
    case Syndrome::kNakSequence:
    case Syndrome::kNakInvalidRequest:
    case Syndrome::kNakRemoteAccess:
    case Syndrome::kNakRemoteOperational:
      break;
  }
  return first + at;
}

}  // namespace

Answered answered_by_us(const QueuePair& qp, const Request& request, const Response& response) {
  const abi::Mtu mtu = qp.attributes.path_mtu;
  if (response.number == request.number) {
    return {packet_of(response, request.psn, request.message_bytes, mtu), request.message_bytes};
  }
  // A NAK stands for the message that is expected, an ACK for everything before it.
  const Psn awaited = qp.receive.psn;
  if (response.syndrome == Syndrome::kAck) return {awaited + Psn::kMask, 0};
  return {awaited + (response.offset >> abi::mtu_shift(mtu)), 0};
}

Answered answered_by_peer(QueuePair& qp, const Response& response) {
  SendWindow& window = qp.send.window;
  if (const std::uint32_t position = window.find(response.number); position != window.tail()) {
    const SendWork& work = window.at(position);
    return {packet_of(response, work.psn, work.length, qp.attributes.path_mtu), work.length};
  }
  const Psn oldest = window.empty() ? qp.send.next_psn : window.at(window.head()).psn;
  return {oldest + Psn::kMask, 0};
}

void Engine::Impl::take_observed(QueuePair& qp, const Request& request, Payload& payload, Instant now) {
  Arrival<Request> observed(services.wire, qp, request, payload, now);
  responder.on_request(qp, request, observed, now);
}

void Engine::Impl::take_observed(QueuePair& qp, const Response& response, Payload& payload, Instant now) {
  Arrival<Response> observed(services.wire, qp, response, payload, now);
  requester.on_response(qp, response, observed, now);
}

}  // namespace pvrdma::verbs
