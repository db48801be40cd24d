// RoundTrip: measures how long the peer takes to answer. From the smoothed time and its variation it computes
// how long to wait before the oldest packet is sent again (RFC 6298). A packet that was sent twice is not
// measured, and a doubled wait stays until a packet that was sent once is measured (Karn's algorithm). Pure.
// Thread: a value, shard-owned.
#pragma once

#include <algorithm>
#include <cstdint>

#include "base/time.h"
#include "verbs/ids.h"

namespace pvrdma::roce {

class RoundTrip {
 public:
  // The thread of a busy peer may pause that long.
  static constexpr Duration kLeast = std::chrono::milliseconds(8);
  static constexpr Duration kMost = std::chrono::milliseconds(500);
  static constexpr Duration kFirst = std::chrono::milliseconds(100);  // until the first measurement

  // A packet that the peer must answer was sent for the first time.
  void on_sent(verbs::Psn psn, Instant now) {
    if (measures_) return;
    measures_ = true;
    psn_ = psn;
    sent_at_ = now;
  }
  // Packets up to `psn` are confirmed.
  void on_confirmed(verbs::Psn psn, Instant now) {
    if (!measures_ || verbs::distance(psn, psn_) < 0) return;
    measures_ = false;
    backoff_ = 0;
    const Duration took = now - sent_at_;
    if (smoothed_ == Duration{0}) {
      smoothed_ = took;
      varies_ = took / 2;
      return;
    }
    varies_ += (std::max(took - smoothed_, smoothed_ - took) - varies_) / 4;
    smoothed_ += (took - smoothed_) / 8;
  }
  // The packets [first, behind) were sent again.
  void on_sent_again(verbs::Psn first, verbs::Psn behind) {
    if (verbs::distance(psn_, first) >= 0 && verbs::distance(psn_, behind) < 0) measures_ = false;
  }
  // No answer came in time: the oldest packets are sent again. The measured packet may be behind them and its
  // answer only late, so it is still measured. Otherwise long times would never count, because the packets
  // with long times are the ones that are sent again.
  void on_silence() { backoff_ = std::min(backoff_ + 1, kBackoffMost); }

  Duration repeat_after() const {
    const Duration once =
        smoothed_ == Duration{0} ? kFirst : std::max({kLeast, 4 * smoothed_, smoothed_ + 4 * varies_});
    return std::min(once * (1 << backoff_), kMost);
  }

 private:
  static constexpr int kBackoffMost = 10;

  Duration smoothed_{0};
  Duration varies_{0};
  int backoff_ = 0;  // each doubles the time
  bool measures_ = false;
  verbs::Psn psn_;
  Instant sent_at_{};
};

}  // namespace pvrdma::roce
