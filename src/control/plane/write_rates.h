// WriteRates: how often records may be written to the store: each key once at once and then once in
// kKeyPause; all keys of one account (a VM's GIDs and its power) kBurst at once and then kPerSecond on
// average. So what one guest does in a loop costs the cluster little, and delays only its own records.
//
// Pure: time is an argument. Thread: as its owner.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace pvrdma::control {

class WriteRates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kKeyPause{1000};
  static constexpr std::uint32_t kBurst = 160;  // all GIDs of an adapter come and go, and more
  static constexpr std::uint32_t kPerSecond = 4;
  static constexpr std::chrono::milliseconds kTokenPause{1000 / kPerSecond};

  // When `key` may be written, now or later. An empty account has no bound.
  Time due(const std::string& key, const std::string& account, Time now) const {
    Time due = now;
    if (const auto written = written_.find(key); written != written_.end())
      due = std::max(due, written->second + kKeyPause);
    if (const auto spent = spent_.find(account); spent != spent_.end())
      due = std::max(due, spent->second - (kBurst - 1) * kTokenPause);
    return due;
  }

  // It is written.
  void note(const std::string& key, const std::string& account, Time now) {
    written_.insert_or_assign(key, now);
    if (!account.empty()) {
      Time& spent = spent_.try_emplace(account, now).first->second;
      spent = std::max(spent, now) + kTokenPause;
    }
    if (written_.size() < forget_at_) return;
    std::erase_if(written_, [now](const auto& entry) { return entry.second + kKeyPause <= now; });
    std::erase_if(spent_, [now](const auto& entry) { return entry.second <= now; });
    forget_at_ = std::max(kForgetMin, 2 * written_.size());
  }

 private:
  static constexpr std::size_t kForgetMin = 256;

  std::map<std::string, Time> written_;
  std::map<std::string, Time> spent_;  // until when an account has used up what it gets
  std::size_t forget_at_ = kForgetMin;
};

}  // namespace pvrdma::control
