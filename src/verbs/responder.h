// Responder: the receive side of an RC QP: finds out which requests are due, has the executor carry each out
// exactly once and in order, and answers them.
//
// A request comes in order, again (its answer was lost: answered again, an atomic from memory), or early (a
// gap: the requester is told where to go on). IBTA vol. 1, 9.6 and 9.7.
//
// The unit is what one call brings: a piece of a message, cut anywhere. What begins within the executed part
// of the message under way and ends behind it is executed from its own beginning: until a message is
// complete, placing the same bytes again changes nothing. Thread: shard-owned.
#pragma once

#include <string_view>

#include "verbs/completion.h"
#include "verbs/executor.h"
#include "verbs/payload.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

class Responder {
 public:
  Responder(Services& services, Completions& completions)
      : services_(services), completions_(completions), executor_(services, completions) {}

  // `payload` (request.bytes bytes for sends and writes) is copied into guest memory before it returns. One
  // that does not come makes the request one that never came.
  void on_request(QueuePair& qp, const Request& request, Payload& payload, Instant now);

  // A request that is not due yet, and whose payload may be placed already (payload.h).
  void on_ahead(QueuePair& qp, const Request& request, Payload& payload);

  // A request of the peer's was dropped, because nobody here knew yet where the peer is.
  static void on_early(QueuePair& qp, const Request& request);
  // Who may have been dropped so is asked to go on, before its timer does.
  void on_path_restored(QueuePair& qp, Instant now);

  // For paths of packets: a read that is due is executed at once, whole; the path fetches its bytes later,
  // with open_read(). False: refused, and the peer is told.
  bool accept_read(QueuePair& qp, const Request& request, Instant now);
  // The bytes of a read that was accepted once. False: they may not be read any more, and the QP has failed
  // if they are to be answered for the first time.
  bool open_read(QueuePair& qp, const Request& request, ReadAnswer answer, guestmem::SpanList& source);
  // What came is no request that the peer may send: the QP ends, and the peer is told.
  void refuse(QueuePair& qp, const Request& request, std::string_view why, Instant now);

 private:
  bool establish(QueuePair& qp, const Request& request);
  // Where packets counted parts of reads: takes over the requester's count by the PSN, if `request` is due or
  // executed last. False: it is early.
  bool take_count(ReceiveSide& receive, const Request& request, abi::Mtu mtu);
  void report_gap(QueuePair& qp, const Request& request, Instant now);
  void on_duplicate(QueuePair& qp, const Request& request, Instant now);
  void on_due(QueuePair& qp, const Request& request, Payload& payload, Instant now);
  Verdict serve_read(QueuePair& qp, const Request& request, Instant now);
  void respond(QueuePair& qp, const Request& request, MessageNumber number, Syndrome syndrome, Instant now,
               std::uint64_t atomic_original = 0);
  void send(QueuePair& qp, const Request& request, const Response& response,
            const guestmem::SpanList& payload, Instant now);

  Services& services_;
  Completions& completions_;
  Executor executor_;
};

}  // namespace pvrdma::verbs
