// CongestionWindow: how many packets of a connection may be out and not confirmed, answers to reads included.
// Grows by one packet for each window that is confirmed, and is halved by a loss or a congestion
// notification, once for all that was out then (as TCP's NewReno, RFC 6582). A peer that says nothing gets
// kLeast packets at first, and when it answers soon half of what it had (RFC 5681, 3.1): perhaps nothing is
// lost and it only is slow, and then few packets went out in vain. Pure. Thread: a value, shard-owned.
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

  // `oldest` is the oldest packet not confirmed, after so many more were confirmed.
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
  // Of one of the packets before `next`.
  void on_loss(verbs::Psn next) {
    if (recovers_) return;
    recovers_ = true;
    recovers_until_ = next;
    confirmed_ = 0;
    packets_ = threshold_ = std::max(packets_ / 2, kLeast);
  }
  // Of all packets before `next`, as far as is known: no answer came in time.
  void on_silence(verbs::Psn next) {
    on_loss(next);
    packets_ = kLeast;
  }
  // Nothing was lost: the peer's answers were late.
  void on_late() { packets_ = std::max(packets_, threshold_); }

 private:
  std::uint32_t packets_ = kFirst;
  std::uint32_t threshold_ = kLeast;  // below it the window grows by what is confirmed
  std::uint32_t confirmed_ = 0;       // since it grew
  bool recovers_ = false;             // what was out at the last loss is not confirmed yet
  verbs::Psn recovers_until_;
};

}  // namespace pvrdma::roce
