#include "sim/flow.h"

#include <algorithm>

namespace pvrdma::sim {
namespace {

using abi::CompletionStatus;

std::span<const std::byte> exposed(const test::RcEndpoint& end) {
  return {end.bytes(), kExposedBytes};
}

abi::CompletionOpcode completion_opcode(abi::Opcode opcode) {
  switch (opcode) {
    case abi::Opcode::kRdmaWrite:
    case abi::Opcode::kRdmaWriteWithImm:
      return abi::CompletionOpcode::kRdmaWrite;
    case abi::Opcode::kRdmaRead:
      return abi::CompletionOpcode::kRdmaRead;
    case abi::Opcode::kAtomicCmpAndSwp:
      return abi::CompletionOpcode::kCompSwap;
    case abi::Opcode::kAtomicFetchAndAdd:
      return abi::CompletionOpcode::kFetchAdd;
    default:
      return abi::CompletionOpcode::kSend;
  }
}

// A write whose last SGE names memory that it must not use. The bytes before may have been sent.
bool may_be_begun(const Operation& operation) {
  return operation.fault == Fault::kBadLkey && operation.is_write();
}
Operation all_but_the_end_of(Operation operation) {
  operation.data.resize(--operation.bytes);
  operation.fault = Fault::kNone;
  return operation;
}

}  // namespace

Flow::Flow(std::string name, test::RcEndpoint& from, test::RcEndpoint& to)
    : name_(std::move(name)), from_(from), to_(to), oracle_(exposed(to)) {}

void Flow::violated(const std::string& what, std::uint64_t wr_id) const {
  throw Violation(name_ + ", work request " + std::to_string(wr_id) + ": " + what);
}

bool Flow::take_slot(std::uint32_t bytes, std::uint32_t& offset) {
  offset = 0;
  if (bytes == 0) return true;
  Slots& slots = bytes > kSlotBytes ? big_slots_ : slots_;
  if (slots.empty()) return false;
  offset = slots.take();
  return true;
}

void Flow::give_back(const Operation& operation) {
  if (operation.bytes == 0) return;
  (operation.local_offset == kBigSlotOffset ? big_slots_ : slots_).give_back(operation.local_offset);
}

void Flow::posted(Operation operation) {
  const bool arrives = operation.fault == Fault::kNone || operation.fault == Fault::kTooLongForPeer;
  if (operation.takes_receive() && arrives) incoming_.push_back({operation, operation.wr_id});
  pending_.push_back(std::move(operation));
}

bool Flow::take_receive_slot(Receive& receive) {
  if (receive_slots_.empty()) return false;
  receive.offset = receive_slots_.take();
  return true;
}

bool Flow::any_signaled_outstanding() const {
  return std::any_of(pending_.begin(), pending_.end(), [](const Operation& one) { return one.signaled; });
}

bool Flow::disturbs_a_read(const Operation& operation) const {
  return operation.changes_memory() &&
         std::any_of(pending_.begin(), pending_.end(),
                     [&](const Operation& one) { return one.is_read() && one.overlaps(operation); });
}

void Flow::on_receive(const driver::WorkCompletion& done, bool calm) {
  if (receives_.empty()) violated("a receive completed that was not posted", done.wr_id);
  const Receive receive = receives_.front();
  receives_.pop_front();
  receive_slots_.give_back(receive.offset);
  if (receive.wr_id != done.wr_id) violated("receives complete out of order", done.wr_id);
  if (done.status == CompletionStatus::kFlushed) {
    if (calm) violated("a receive was flushed for no reason", done.wr_id);
    return;
  }
  if (incoming_.empty()) violated("a receive completed without a message", done.wr_id);
  const Operation message = std::move(incoming_.front().operation);
  incoming_.pop_front();

  if (message.fault == Fault::kTooLongForPeer) {
    // Either of two faults may be found first, because packets land one by one.
    const bool is_refused = done.status == CompletionStatus::kLocalLength ||
                            (receive.bad && done.status == CompletionStatus::kLocalProtection);
    if (!is_refused) violated("a message too long was received", done.wr_id);
    return;
  }
  if (receive.bad && message.opcode != abi::Opcode::kRdmaWriteWithImm && message.bytes != 0) {
    if (done.status != CompletionStatus::kLocalProtection) violated("a bad receive was used", done.wr_id);
    return;
  }
  if (!done.ok())
    violated("a receive failed with " + std::to_string(static_cast<int>(done.status)), done.wr_id);
  if (done.byte_len != message.bytes) violated("a receive has the wrong length", done.wr_id);
  const bool immediate = (done.flags & abi::kWcWithImm) != 0;
  if (immediate != message.has_immediate() || (immediate && done.immediate != message.immediate)) {
    violated("a receive has the wrong immediate data", done.wr_id);
  }
  const bool is_write = message.opcode == abi::Opcode::kRdmaWriteWithImm;
  const auto opcode = is_write ? abi::CompletionOpcode::kRecvRdmaWithImm : abi::CompletionOpcode::kRecv;
  if (done.opcode != opcode) violated("a receive has the wrong opcode", done.wr_id);
  if (!is_write && !std::equal(message.data.begin(), message.data.end(), to_.bytes(receive.offset))) {
    violated("a receive holds the wrong bytes", done.wr_id);
  }
}

void Flow::on_send(const driver::WorkCompletion& done, bool calm) {
  while (!pending_.empty() && pending_.front().wr_id != done.wr_id) {
    const Operation silent = std::move(pending_.front());
    pending_.pop_front();
    if (silent.signaled) violated("never completed, but a later one did", silent.wr_id);
    succeed(silent);
  }
  if (pending_.empty()) violated("completed twice, or was never posted", done.wr_id);
  const Operation operation = std::move(pending_.front());
  pending_.pop_front();
  if (done.ok()) {
    if (!operation.signaled) violated("completed, though unsignalled", done.wr_id);
    if (done.opcode != completion_opcode(operation.opcode)) violated("has the wrong opcode", done.wr_id);
    succeed(operation);
  } else {
    end(operation, done.status, calm);
  }
}

void Flow::succeed(const Operation& operation) {
  if (ended_) violated("succeeded after its QP had failed", operation.wr_id);
  if (operation.fault != Fault::kNone) violated("succeeded, but could not", operation.wr_id);
  const bool arrived = incoming_.empty() || incoming_.front().index > operation.wr_id;
  if (!arrived && !receiver_gone_) violated("succeeded before its message was received", operation.wr_id);
  oracle_.complete(operation, {from_.bytes(operation.local_offset), operation.bytes});
  give_back(operation);
}

void Flow::end(const Operation& operation, CompletionStatus status, bool calm) {
  const std::string code = std::to_string(static_cast<int>(status));
  if (calm) violated("failed for no reason with status " + code, operation.wr_id);
  give_back(operation);
  if (status == CompletionStatus::kFlushed) {
    ended_ = true;
    if (!exact_end_) unsure_.push_back(operation);
    return;
  }
  if (ended_) violated("failed with status " + code + " after another had", operation.wr_id);
  ended_ = true;
  switch (status) {
    case CompletionStatus::kRnrRetryExceeded:
      if (!operation.takes_receive()) violated("takes no receive, but failed with " + code, operation.wr_id);
      [[fallthrough]];
    case CompletionStatus::kRetryExceeded:
      unsure_.push_back(operation);
      return;  // a copy may still arrive
    case CompletionStatus::kRemoteOperation:
      if (!operation.takes_receive()) violated("takes no receive, but failed with " + code, operation.wr_id);
      break;
    default:
      if (operation.fault == Fault::kNone || status != expected_status(operation.fault)) {
        violated("failed with the wrong status " + code, operation.wr_id);
      }
      if (operation.fault == Fault::kBadLkey && (operation.is_read() || operation.is_atomic())) {
        unsure_.push_back(operation);  // found when the answer came: it and later ones may have been executed
        return;
      }
      if (may_be_begun(operation)) unsure_.push_back(all_but_the_end_of(operation));
  }
  exact_end_ = true;
}

void Flow::require_all_sends_completed() {
  while (!pending_.empty()) {
    const Operation silent = std::move(pending_.front());
    pending_.pop_front();
    if (silent.signaled || ended_) violated("was not flushed", silent.wr_id);
    succeed(silent);
  }
}

void Flow::require_all_receives_completed() const {
  if (!receives_.empty()) violated("a receive was not flushed", receives_.front().wr_id);
}

void Flow::verify() const {
  std::vector<Operation> unsure = unsure_;
  unsure.insert(unsure.end(), pending_.begin(), pending_.end());
  const auto stops = [](const Operation& one) {  // nothing after a refused operation is executed
    return one.fault != Fault::kNone && !(one.fault == Fault::kBadLkey && (one.is_read() || one.is_atomic()));
  };
  const auto stop = std::find_if(unsure.begin(), unsure.end(), stops);
  if (stop != unsure.end()) {
    const Operation last = *stop;
    unsure.erase(stop, unsure.end());
    if (may_be_begun(last)) unsure.push_back(all_but_the_end_of(last));
  }
  oracle_.verify(exposed(to_), unsure, name_);
}

}  // namespace pvrdma::sim
