// TurnShare: how much an engine may still copy and execute until its next turn.
//
// One thread serves all adapters, and each has the same share of a turn: how many QPs, contexts or doorbells
// a guest spreads its work over makes no difference. What it spends beyond its share, a piece at most, it
// owes to the next turn; what it leaves is not saved up. Thread: a value, shard-owned.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pvrdma::verbs {

class TurnShare {
 public:
  // In bytes copied: about 50 us.
  static constexpr std::int64_t kBytesPerTurn = 512 * 1024;
  // What a work request costs besides its payload: as much as copying this.
  static constexpr std::int64_t kBytesPerWork = 1024;

  // The engine's next turn.
  void begin() { left_ = std::min(left_ + kBytesPerTurn, kBytesPerTurn); }

  void spend(std::int64_t works, std::int64_t bytes) { left_ -= works * kBytesPerWork + bytes; }
  bool spent() const { return left_ <= 0; }
  // Not negative.
  std::uint32_t bytes_left() const { return static_cast<std::uint32_t>(std::max<std::int64_t>(left_, 0)); }
  std::uint32_t works_left() const {
    return (bytes_left() + std::uint32_t{kBytesPerWork} - 1) / std::uint32_t{kBytesPerWork};
  }

 private:
  std::int64_t left_ = kBytesPerTurn;
};

}  // namespace pvrdma::verbs
