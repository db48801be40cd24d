// Flow: one direction of a connection, and the checker of its completions.
//
// It knows every posted request and receive, and checks each completion: it must come once, in order, after
// all earlier ones, for a reason, and with the right bytes and status. Thread: the world's.
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
  std::uint32_t offset = 0;  // of the receive's slot
  bool bad = false;          // names memory that it must not use
};

class Flow {
 public:
  // Checks the requests from `from` to `to`, both borrowed. `name` is for messages.
  Flow(std::string name, test::RcEndpoint& from, test::RcEndpoint& to);

  // --- Posting ---

  // Takes a slot for `bytes` bytes; 0 bytes need no slot. False: no slot is free.
  bool take_slot(std::uint32_t bytes, std::uint32_t& offset);
  void posted(Operation operation);
  bool take_receive_slot(Receive& receive);
  void posted(const Receive& receive) { receives_.push_back(receive); }

  // --- Completions ---

  // `calm`: nothing happened to the connection that could make a request fail. The caller passes receives
  // first, because a request must not complete before its message was received.
  void on_receive(const driver::WorkCompletion& completion, bool calm);
  void on_send(const driver::WorkCompletion& completion, bool calm);

  // For a requester's QP in ERR after all completions were polled: only unsignalled successes may be left.
  bool all_sends_completed() const { return pending_.empty(); }
  void require_all_sends_completed();
  void require_all_receives_completed() const;

  // Compares the memory at the responder. Callable at any time, if nothing changes the memory meanwhile.
  void verify() const;

  std::uint64_t next_wr_id() { return ++last_wr_id_; }
  std::size_t outstanding() const { return pending_.size(); }
  bool any_signaled_outstanding() const;
  std::size_t receives_posted() const { return receives_.size(); }
  bool ended() const { return ended_; }
  // Whether `operation` changes memory that a pending read covers; it then needs a fence.
  bool disturbs_a_read(const Operation& operation) const;
  const std::string& name() const { return name_; }

  // The responder is gone, and its completions with it.
  void forget_receiver() { receiver_gone_ = true; }

 private:
  struct Incoming {
    Operation operation;  // without the data of a write
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
  std::vector<Operation> unsure_;  // ended without success: executed or not executed
  std::deque<Incoming> incoming_;  // messages that need a receive, in order
  std::deque<Receive> receives_;
  std::uint64_t last_wr_id_ = 0;
  bool ended_ = false;
  bool exact_end_ = false;  // certainly nothing after the last success was executed
  bool receiver_gone_ = false;
};

}  // namespace pvrdma::sim
