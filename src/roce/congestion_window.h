// CongestionWindow: how many packets of a connection may be in flight and unconfirmed, including the answers
// to reads.
//
// It grows by one packet for each window that is confirmed. A loss or a congestion notification halves it,
// once for all packets that were in flight at that time (like TCP's NewReno, RFC 6582). When the peer is
// silent, the window shrinks to kLeast packets. If the peer then answers late, the window becomes half of
// what it was (RFC 5681, 3.1): perhaps nothing was lost and the peer was only slow, and then few packets were
// repeated in vain.
//
// Pure. Thread: a value, shard-owned.
#pragma once

#include <algorithm>
#include <cstdint>

#include "verbs/ids.h"

namespace pvrdma::roce {

class CongestionWindow {
 public:
  static constexpr std::uint32_t kFirst = 64;
  static constexpr std::uint32_t kLeast = 4;
  static constexpr std::uint32_t kMost = 256;

  std::uint32_t packets() const { return packets_; }

  // `packets` more packets were confirmed. `oldest` is now the oldest unconfirmed packet.
  void on_confirmed(std::uint32_t packets, verbs::Psn oldest) {
    if (recovers_ && verbs::distance(oldest, recovers_until_) >= 0) recovers_ = false;
    if (packets_ < threshold_) {
      packets_ = std::min(packets_ + packets, threshold_);
      return;
    }
    confirmed_ += packets;
    if (confirmed_ < packets_) return;
    confirmed_ = 0;
    packets_ = std::min(packets_ + 1, kMost);
  }
  // One of the packets before `next` was lost.
  void on_loss(verbs::Psn next) {
    if (recovers_) return;
    recovers_ = true;
    recovers_until_ = next;
    confirmed_ = 0;
    packets_ = threshold_ = std::max(packets_ / 2, kLeast);
  }
  // No answer came in time. All packets before `next` may be lost.
  void on_silence(verbs::Psn next) {
    on_loss(next);
    packets_ = kLeast;
  }
  // Nothing was lost: the peer's answers were late.
  void on_late() { packets_ = std::max(packets_, threshold_); }

 private:
  std::uint32_t packets_ = kFirst;
  std::uint32_t threshold_ = kLeast;  // below it, the window grows by one for each confirmed packet
  std::uint32_t confirmed_ = 0;       // packets confirmed since it grew
  bool recovers_ = false;             // packets that were in flight at the last loss are unconfirmed
  verbs::Psn recovers_until_;
};

}  // namespace pvrdma::roce
