// Executor: carries out what arrived for the receive side of an RC QP: places bytes, takes receives, writes
// CQEs, changes words. It is told what is due and knows no order, and it answers nobody: what became of a
// request is its result. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "verbs/completion.h"
#include "verbs/payload.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

// What became of a piece.
struct Verdict {
  Syndrome syndrome = Syndrome::kAck;
  std::string_view why{};                 // of a NAK, for the log
  std::optional<abi::EventType> event{};  // raised with a NAK when no CQE tells this guest
  bool lost = false;                      // its bytes did not come: nothing has changed, nothing is said
  std::uint64_t atomic_original = 0;

  bool ends_qp() const { return syndrome >= Syndrome::kNakInvalidRequest; }
};

class Executor {
 public:
  Executor(Services& services, Completions& completions) : services_(services), completions_(completions) {}

  // A piece of a send or write that continues the message under way, or an atomic. With kAck the QP has
  // advanced past it.
  Verdict execute(QueuePair& qp, const Request& request, Payload& payload);

  // Has the payload of a piece of a write placed, if it may be, and no more.
  void place_ahead(QueuePair& qp, const Request& request, Payload& payload);

  // A piece of a read: checks it and finds its bytes, which are valid as long as payload is. Does not
  // advance.
  Verdict open_read(const QueuePair& qp, const Request& request, guestmem::SpanList& source);

  // The QP has done what the piece asks for.
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
