// An engine's counters: plain integers that the shard's snapshot reads. Thread: shard-owned.
#pragma once

#include <cstdint>

namespace pvrdma::verbs {

struct Counters {
  std::uint64_t tx_messages = 0;  // work requests completed with success (RC) or sent (UD)
  std::uint64_t tx_bytes = 0;     // payload sent or, for reads, fetched from the peer
  std::uint64_t rx_messages = 0;  // messages executed as responder or received (UD)
  std::uint64_t rx_bytes = 0;     // payload placed here by peers
  std::uint64_t read_bytes_served = 0;
  std::uint64_t atomics_served = 0;
  std::uint64_t retransmits = 0;
  std::uint64_t timeouts = 0;
  std::uint64_t rnr_naks_sent = 0;
  std::uint64_t rnr_naks_received = 0;
  std::uint64_t sequence_naks_sent = 0;
  std::uint64_t duplicates = 0;
  std::uint64_t access_errors = 0;  // rkey, bounds or permission refused as responder
  std::uint64_t local_errors = 0;   // work requests that failed because of this guest's own mistake
  std::uint64_t remote_errors = 0;  // work requests that a NAK ended
  std::uint64_t retry_exceeded = 0;
  std::uint64_t flushed = 0;
  std::uint64_t cq_overflows = 0;
  std::uint64_t hidden_doorbells = 0;    // mapped: QPs found with work whose doorbell was overwritten
  std::uint64_t events_maybe_armed = 0;  // mapped: events raised because an ARM may have been overwritten
  std::uint64_t bad_doorbells = 0;       // an unknown handle, or an object of another context
  std::uint64_t invalid_ring_indices = 0;
  std::uint64_t dropped_unknown_qp =
      0;  // as responder: the QP does not exist, has another peer or is in a wrong state
  std::uint64_t ud_dropped_qkey = 0;
  std::uint64_t ud_dropped_no_receive = 0;
  std::uint64_t ud_dropped_length = 0;
};

}  // namespace pvrdma::verbs
