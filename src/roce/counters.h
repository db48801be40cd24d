// What RoCE connections count, under the names that administrators know of NICs and of Linux's rxe. Thread:
// values.
#pragma once

#include <cstdint>

namespace pvrdma::roce {

struct Counters {
  // As responder.
  std::uint64_t duplicate_request = 0;
  std::uint64_t out_of_sequence = 0;     // requests behind a gap
  std::uint64_t resources_exceeded = 0;  // reads and atomics beyond those that can be owed
  std::uint64_t answers_dropped = 0;     // what was owed before a peer went back
  // As requester.
  std::uint64_t packet_seq_err = 0;       // NAKs: the peer misses something
  std::uint64_t implied_nak_seq_err = 0;  // an answer is missing before one that came
  std::uint64_t rnr_nak_retry_err = 0;    // the peer had no receive
  std::uint64_t bad_response = 0;         // answers to nothing that was asked, or of another length
  std::uint64_t repeated = 0;             // packets sent again
  // Congestion.
  std::uint64_t np_ecn_marked = 0;
  std::uint64_t np_cnp_sent = 0;
  std::uint64_t rp_cnp_handled = 0;
};

}  // namespace pvrdma::roce
