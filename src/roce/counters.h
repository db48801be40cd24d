// The counters of RoCE connections. Administrators know their names from NICs and from Linux's rxe. Thread:
// values.
#pragma once

#include <cstdint>

namespace pvrdma::roce {

struct Counters {
  // As responder.
  std::uint64_t duplicate_request = 0;
  std::uint64_t out_of_sequence = 0;     // requests behind a gap
  std::uint64_t resources_exceeded = 0;  // requests dropped because no more answers can be owed
  std::uint64_t answers_dropped = 0;     // owed answers that were dropped when the peer went back
  // As requester.
  std::uint64_t packet_seq_err = 0;       // sequence NAKs: the peer misses a packet
  std::uint64_t implied_nak_seq_err = 0;  // an answer is missing, but a later one has come
  std::uint64_t rnr_nak_retry_err = 0;    // the peer had no receive
  std::uint64_t bad_response = 0;         // answers without a matching request, or of another length
  std::uint64_t repeated = 0;             // packets sent again
  // Congestion.
  std::uint64_t np_ecn_marked = 0;
  std::uint64_t np_cnp_sent = 0;
  std::uint64_t rp_cnp_handled = 0;
};

}  // namespace pvrdma::roce
