// DatagramService: UD and GSI QPs, which have no connection and send no answers. A datagram that cannot be
// delivered is dropped and counted.
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

  void on_datagram(QueuePair& qp, const Datagram& datagram, const guestmem::SpanList& payload);

 private:
  void send(QueuePair& qp, SendWork& work, std::span<const abi::Sge> sges, const UdAddress& address,
            Instant now);
  void fail_send(QueuePair& qp, const SendWork& work, abi::CompletionStatus status);

  Services& services_;
  Completions& completions_;
};

}  // namespace pvrdma::verbs
