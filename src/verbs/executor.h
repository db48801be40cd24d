// Executor: carries out requests that arrived for the receive side of an RC QP: places bytes, takes receives,
// writes CQEs, changes words. The caller decides which requests are due and sends the answers; the executor
// returns the outcome. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "verbs/completion.h"
#include "verbs/payload.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

// The outcome of one piece.
struct Verdict {
  Syndrome syndrome = Syndrome::kAck;
  std::string_view why{};                 // the reason for a NAK, for the log
  std::optional<abi::EventType> event{};  // raised with a NAK if no CQE tells this guest
  bool lost = false;  // the bytes did not arrive: nothing has changed, and no answer is sent
  std::uint64_t atomic_original = 0;

  bool ends_qp() const { return syndrome >= Syndrome::kNakInvalidRequest; }
};

class Executor {
 public:
  Executor(Services& services, Completions& completions) : services_(services), completions_(completions) {}

  // Executes a piece of a send or write that continues the message in progress, or an atomic. If the result
  // is kAck, the QP has advanced past it.
  Verdict execute(QueuePair& qp, const Request& request, Payload& payload);

  // Has the payload of a piece of a write placed, if the write is permitted. Does nothing else.
  void place_ahead(QueuePair& qp, const Request& request, Payload& payload);

  // Checks a piece of a read and finds its bytes, which stay valid as long as the payload. Does not advance
  // the QP.
  Verdict open_read(const QueuePair& qp, const Request& request, guestmem::SpanList& source);

  // Advances the QP past the piece, which has been executed.
  void advance(QueuePair& qp, const Request& request);

 private:
  Verdict execute_send(QueuePair& qp, const Request& request, Payload& payload);
  Verdict execute_write(QueuePair& qp, const Request& request, Payload& payload);
  Verdict execute_atomic(QueuePair& qp, const Request& request);
  Verdict take_receive(QueuePair& qp);
  bool place(QueuePair& qp, const Request& request, Payload& payload, const guestmem::SpanList& target);
  bool invalidate(std::uint32_t key, PdHandle pd);
  Verdict deliver(QueuePair& qp, const Request& request);
  bool may_access(const QueuePair& qp, const Request& request, std::uint32_t flag,
                  guestmem::SpanList& spans) const;
  Verdict no_access(std::string_view why);

  Services& services_;
  Completions& completions_;
};

}  // namespace pvrdma::verbs
