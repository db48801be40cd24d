// WriteRates: limits how often records are written to the store. Each key may be written kKeyBurst times at
// once and then once in kKeyPause on average. All keys of one account (a VM's GIDs and its power) may be
// written kBurst times at once and then kPerSecond times. So a guest that changes them in a loop costs the
// cluster little, and delays only its own records.
//
// Pure: time is an argument. Thread: as its owner.
#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>

namespace pvrdma::control {

// Whether a record keeps to the rates. A change that no guest can cause may be written at once.
enum class Pace : bool { kLimited, kAtOnce };

class WriteRates {
 public:
  using Time = std::chrono::steady_clock::time_point;

  static constexpr std::chrono::milliseconds kKeyPause{1000};
  // A GID that goes and comes back at once is written twice: when a driver is reloaded, its peers miss its
  // GIDs no longer than necessary.
  static constexpr std::uint32_t kKeyBurst = 2;
  static constexpr std::uint32_t kBurst = 160;  // enough for all GIDs of an adapter to come and go
  static constexpr std::uint32_t kPerSecond = 4;
  static constexpr std::chrono::milliseconds kTokenPause{1000 / kPerSecond};

  // When `key` may be written, now or later. An empty account has no limit.
  Time due(const std::string& key, const std::string& account, Time now) const {
    return std::max(
        {now, earned(keys_, key, kKeyBurst, kKeyPause), earned(accounts_, account, kBurst, kTokenPause)});
  }

  // Counts a write.
  void note(const std::string& key, const std::string& account, Time now) {
    spend(keys_, key, kKeyPause, now);
    if (!account.empty()) spend(accounts_, account, kTokenPause, now);
    if (keys_.size() < forget_at_) return;
    for (SpentUntil* each : {&keys_, &accounts_})
      std::erase_if(*each, [now](const auto& entry) { return entry.second <= now; });
    forget_at_ = std::max(kForgetMin, 2 * keys_.size());
  }

 private:
  // The time until which a key or account has used up its share. A missing entry has used nothing.
  using SpentUntil = std::map<std::string, Time>;

  static constexpr std::size_t kForgetMin = 256;

  static Time earned(const SpentUntil& spent, const std::string& who, std::uint32_t burst,
                     std::chrono::milliseconds pause) {
    const auto found = spent.find(who);
    return found == spent.end() ? Time{} : found->second - (burst - 1) * pause;
  }

  static void spend(SpentUntil& spent, const std::string& who, std::chrono::milliseconds pause, Time now) {
    Time& until = spent.try_emplace(who, now).first->second;
    until = std::max(until, now) + pause;
  }

  SpentUntil keys_;
  SpentUntil accounts_;
  std::size_t forget_at_ = kForgetMin;
};

}  // namespace pvrdma::control
