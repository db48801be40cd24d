// DatagramService: UD and GSI QPs, which have no connection and send no answers. A datagram that cannot be
// delivered is dropped and counted. But a UD QP whose last datagram has left no room on its way waits, so
// that fast senders lose nothing.
//
// Each receive starts with a 40-byte GRH area (reference 6.3). Thread: shard-owned.
#pragma once

#include "verbs/completion.h"
#include "verbs/send_wqe.h"
#include "verbs/services.h"

namespace pvrdma::verbs {

class DatagramService {
 public:
  DatagramService(Services& services, Completions& completions)
      : services_(services), completions_(completions) {}

  // Runs one turn of the send queue. Returns true if there is more to send.
  bool run(QueuePair& qp, Instant now);

  // The time for which the QP waits for room has passed.
  void on_time(QueuePair& qp) { services_.scheduler.wake(qp); }

  void on_datagram(QueuePair& qp, const Datagram& datagram, const guestmem::SpanList& payload);

 private:
  // Returns false if the way that the datagram took has no room for another one.
  bool send(QueuePair& qp, SendWork& work, std::span<const abi::Sge> sges, const UdAddress& address,
            Instant now);
  bool fail_send(QueuePair& qp, const SendWork& work, abi::CompletionStatus status);

  Services& services_;
  Completions& completions_;
};

}  // namespace pvrdma::verbs
