// TurnShare: how much an engine may still copy and execute until its next turn.
//
// One thread serves many adapters, and each adapter has the same share of a turn, however many QPs, contexts
// or doorbells its guest uses. An engine may exceed its share by one piece at most; the next share is smaller
// by that amount. A rest that it does not use is not saved up. Thread: a value, shard-owned.
#pragma once

#include <algorithm>
#include <cstdint>

namespace pvrdma::verbs {

class TurnShare {
 public:
  // The share, as a number of bytes to copy: about 50 us.
  static constexpr std::int64_t kBytesPerTurn = 512 * 1024;
  // Besides its payload, a work request costs as much as copying this many bytes.
  static constexpr std::int64_t kBytesPerWork = 1024;

  // Begins the engine's next turn.
  void begin() { left_ = std::min(left_ + kBytesPerTurn, kBytesPerTurn); }

  void spend(std::int64_t works, std::int64_t bytes) { left_ -= works * kBytesPerWork + bytes; }
  bool spent() const { return left_ <= 0; }
  // 0 if the share is spent or exceeded.
  std::uint32_t bytes_left() const { return static_cast<std::uint32_t>(std::max<std::int64_t>(left_, 0)); }
  std::uint32_t works_left() const {
    return (bytes_left() + std::uint32_t{kBytesPerWork} - 1) / std::uint32_t{kBytesPerWork};
  }

 private:
  std::int64_t left_ = kBytesPerTurn;
};

}  // namespace pvrdma::verbs
