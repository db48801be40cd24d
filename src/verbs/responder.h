// Responder: the receive side of an RC QP. It finds out which requests are due, has the executor carry out
// each of them exactly once and in order, and answers them.
//
// A request is due, a duplicate, or early. A duplicate comes if its answer was lost, so it is answered again;
// for an atomic, the responder has kept the result (AtomicReplays). A request is early if one before it is
// missing: the requester is told where to continue. IBTA vol. 1, 9.6 and 9.7.
//
// One call brings one piece of a message, which may be cut anywhere. A piece may begin within the executed
// part of the message in progress and end beyond it. It is executed from its own beginning: until a message
// is complete, placing the same bytes again changes nothing. Thread: shard-owned.
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

  // Copies `payload` (request.bytes bytes for sends and writes) into guest memory before it returns, unless
  // the path places it later. If the payload does not arrive, the request counts as never received.
  void on_request(QueuePair& qp, const Request& request, Payload& payload, Instant now);

  // Handles a request that is not due yet; its payload may be placed already (payload.h).
  void on_ahead(QueuePair& qp, const Request& request, Payload& payload);

  // A request of the peer was dropped because nobody here knew yet that the peer is at `from`, or because the
  // port was stopped.
  static void on_early(QueuePair& qp, const Request& request, PeerPlace from, Instant now);
  // Asks a peer whose request was dropped in this way to send it again, before the peer's timer expires. If
  // messages for the peer go elsewhere, it does not hear the question, and is asked once more when they go
  // there.
  void on_path_restored(QueuePair& qp, Instant now);

  // The guest has posted receives to the queue of a QP whose peer pauses, or to the SRQ. Peers that pause
  // after an RNR NAK are told, so that they need not wait until their timer expires. For an SRQ, at most
  // kToldAtOnce of them.
  void on_receives_posted(QueuePair& qp, Instant now);
  void on_receives_posted(SharedReceiveQueue& srq, Instant now);
  static constexpr std::uint32_t kToldAtOnce = 16;

  // For paths that carry packets: executes a read that is due at once, as a whole; the path fetches its bytes
  // later with open_read(). Returns false if the read was refused and the peer informed.
  bool accept_read(QueuePair& qp, const Request& request, Instant now);
  // Finds the bytes of a read that was accepted. Returns false if they may no longer be read; the QP then
  // fails if this is the first answer.
  bool open_read(QueuePair& qp, const Request& request, ReadAnswer answer, guestmem::SpanList& source);
  // Refuses a request that the peer must not send: informs the peer and fails the QP.
  void refuse(QueuePair& qp, const Request& request, std::string_view why, Instant now);

 private:
  void note_pause(QueuePair& qp, bool peer_pauses);
  // The pause of the QP's peer is over.
  void tell_ready(QueuePair& qp, Instant now);
  bool establish(QueuePair& qp, const Request& request);
  // Adopts the requester's message count if packets have counted parts of reads (ReceiveState::counts_parts).
  // The PSN tells which message `request` is; it must be due or the last one executed. Returns false if the
  // request cannot be executed now: it is early, or begins within another message.
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
