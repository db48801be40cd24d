// Responder: the receive side of an RC QP: executes requests exactly once and in order, and answers them.
//
// A request comes in order, again (its answer was lost: answered again, an atomic from memory), or early (a
// gap: the requester is told where to go on). IBTA vol. 1, 9.6 and 9.7.
//
// The unit is what one call brings: a piece, or any piece of one. What begins within the executed part of
// the message under way and ends behind it is executed from its own beginning: until a message is complete,
// placing the same bytes again changes nothing. Thread: shard-owned.
#pragma once

#include "verbs/completion.h"
#include "verbs/payload.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

class Responder {
 public:
  Responder(Services& services, Completions& completions) : services_(services), completions_(completions) {}

  // `payload` (request.bytes bytes for sends and writes) is copied into guest memory before it returns. One
  // that does not come makes the request one that never came.
  void on_request(QueuePair& qp, const Request& request, Payload& payload, Instant now);

 private:
  // What became of a piece.
  struct Verdict {
    Syndrome syndrome = Syndrome::kAck;
    std::string_view why{};                 // of a NAK, for the log
    std::optional<abi::EventType> event{};  // raised with a NAK when no CQE tells this guest
    bool lost = false;                      // its bytes did not come: nothing has changed, nothing is said
    bool ends_qp() const { return syndrome >= Syndrome::kNakInvalidRequest; }
  };

  void on_duplicate(QueuePair& qp, const Request& request, Instant now);
  void execute(QueuePair& qp, const Request& request, Payload& payload, Instant now);
  Verdict execute_send(QueuePair& qp, const Request& request, Payload& payload);
  Verdict execute_write(QueuePair& qp, const Request& request, Payload& payload);
  Verdict execute_atomic(QueuePair& qp, const Request& request, std::uint64_t& original);
  // Reads answer with data and need no separate acknowledgement.
  Verdict serve_read(QueuePair& qp, const Request& request, Instant now);

  Verdict take_receive(QueuePair& qp);
  Verdict deliver(QueuePair& qp, const Request& request);
  void advance(QueuePair& qp, const Request& request);
  void respond(QueuePair& qp, const Request& request, MessageNumber number, Syndrome syndrome, Instant now,
               std::uint64_t atomic_original = 0);

  Services& services_;
  Completions& completions_;
};

}  // namespace pvrdma::verbs
