#include "verbs/queue_pair.h"

#include <algorithm>
#include <bit>

namespace pvrdma::verbs {
namespace {

// The memory of a window, so that an idle QP takes less than 4 KiB. It holds as many work requests as fit
// with the QP's SGE count, but at least kWindowSlotsMin.
constexpr std::size_t kWindowBytes = 2048;
constexpr std::size_t kWindowSlotsMin = 4;

std::uint32_t window_slots(std::uint32_t max_sge) {
  const std::size_t slot_bytes = sizeof(SendWork) + max_sge * sizeof(abi::Sge);
  return static_cast<std::uint32_t>(std::bit_floor(std::max(kWindowSlotsMin, kWindowBytes / slot_bytes)));
}

}  // namespace

RequestOp request_op(abi::Opcode opcode) {
  switch (opcode) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
      return RequestOp::kWrite;
    case abi::Opcode::kRdmaRead:
      return RequestOp::kRead;
    case abi::Opcode::kAtomicCmpAndSwp:
      return RequestOp::kCompareSwap;
    case abi::Opcode::kAtomicFetchAndAdd:
      return RequestOp::kFetchAdd;
    default:
      return RequestOp::kSend;
  }
}

SendWindow::SendWindow(std::uint32_t max_sge)
    : max_sge_(max_sge),
      slots_(window_slots(max_sge)),
      works_(std::make_unique<SendWork[]>(slots_)),
      sges_(std::make_unique<abi::Sge[]>(static_cast<std::size_t>(slots_) * max_sge)) {}

const SendWork* QueuePair::next_work() {
  for (std::uint32_t at = send.sending; at != send.window.tail(); ++at) {
    const SendWork& work = send.window.at(at);
    // The others were answered before rewind() moved `sending` back.
    if (work.state == SendWork::State::kQueued) return &work;
  }
  return nullptr;
}

Psn QueuePair::next_psn() {
  const SendWork* next = next_work();
  return next != nullptr ? next->psn + (next->sent >> abi::mtu_shift(attributes.path_mtu)) : send.next_psn;
}

Psn QueuePair::oldest_psn() {
  for (std::uint32_t at = send.window.head(); at != send.window.tail(); ++at) {
    const SendWork& work = send.window.at(at);
    const bool is_open = work.state == SendWork::State::kQueued || work.state == SendWork::State::kSent;
    if (is_open && !work.is_local()) {
      return work.psn + (work.confirmed >> abi::mtu_shift(attributes.path_mtu));
    }
  }
  return send.next_psn;
}

bool QueuePair::is_answer_due() {
  const SendWork& oldest = send.window.at(send.window.head());
  if (oldest.is_answer_due()) return true;
  return oldest.started && oldest.sent != oldest.confirmed && path.is_open() && path->carries_packets();
}

Psn QueuePair::expected_psn() const {
  return receive.psn + (receive.under_way.executed >> abi::mtu_shift(attributes.path_mtu));
}

void QueuePair::reset() {
  attributes = QpAttributes{};
  local_gid = Gid{};
  path.close();
  send.reset();
  receive.reset();
  receiver_link.unlink();
}

}  // namespace pvrdma::verbs
