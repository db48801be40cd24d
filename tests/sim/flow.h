// Flow: one direction of a connection, and the checker of its completions.
//
// It knows every request and receive that was posted and judges each completion: none twice, none out of
// order, none missing before a later one, none without a reason, with the bytes and the status it must have.
// Thread: the world's.
#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/layout.h"
#include "sim/operation.h"
#include "sim/oracle.h"
#include "support/rc_endpoint.h"

namespace pvrdma::sim {

struct Receive {
  std::uint64_t wr_id = 0;
  std::uint32_t offset = 0;  // of its slot
  bool bad = false;          // names memory it may not use
};

class Flow {
 public:
  // Requests from `from` to `to`, both borrowed. `name` is for messages.
  Flow(std::string name, test::RcEndpoint& from, test::RcEndpoint& to);

  // --- What was posted ---

  // A slot for `bytes` bytes, which for 0 is no slot; false when none is free.
  bool take_slot(std::uint32_t bytes, std::uint32_t& offset);
  void posted(Operation operation);
  bool take_receive_slot(Receive& receive);
  void posted(const Receive& receive) { receives_.push_back(receive); }

  // --- What came back ---

  // `calm`: nothing was done to this connection that could make anything fail. Receives first: a request must
  // not complete before its message has.
  void on_receive(const driver::WorkCompletion& completion, bool calm);
  void on_send(const driver::WorkCompletion& completion, bool calm);

  // The requester's QP is in ERR and everything was polled: only silent successes may be left.
  bool all_sends_completed() const { return pending_.empty(); }
  void require_all_sends_completed();
  void require_all_receives_completed() const;

  // Compares the memory at the responder. May be called at any time when nothing changes it meanwhile.
  void verify() const;

  std::uint64_t next_wr_id() { return ++last_wr_id_; }
  std::size_t outstanding() const { return pending_.size(); }
  bool any_signaled_outstanding() const;
  std::size_t receives_posted() const { return receives_.size(); }
  bool ended() const { return ended_; }
  // Whether a change at `operation`'s place could be seen by a read that is not complete: then it needs a
  // fence.
  bool disturbs_a_read(const Operation& operation) const;
  const std::string& name() const { return name_; }

  // The responder is gone: its completions with it.
  void forget_receiver() { receiver_gone_ = true; }

 private:
  struct Incoming {
    Operation operation;  // the data of a write is not kept
    std::uint64_t index;
  };
  void succeed(const Operation& operation);
  void end(const Operation& operation, abi::CompletionStatus status, bool calm);
  void give_back(const Operation& operation);
  [[noreturn]] void violated(const std::string& what, std::uint64_t wr_id) const;

  const std::string name_;
  test::RcEndpoint& from_;
  test::RcEndpoint& to_;
  Oracle oracle_;
  Slots slots_{kSlotsOffset, kSlotBytes, kSlots};
  Slots big_slots_{kBigSlotOffset, kBigSlotBytes, 1};
  Slots receive_slots_{kReceivesOffset, kReceiveBytes, kReceives};

  std::deque<Operation> pending_;
  std::vector<Operation> unsure_;  // ended without success: executed or not
  std::deque<Incoming> incoming_;  // messages that take a receive, in order
  std::deque<Receive> receives_;
  std::uint64_t last_wr_id_ = 0;
  bool ended_ = false;
  bool exact_end_ = false;  // it is known that nothing after the last success was executed
  bool receiver_gone_ = false;
};

}  // namespace pvrdma::sim
