// The layout of an endpoint's registered buffer: the part that the peer may change, slots for its own
// requests, slots for receives. Thread: a value.
#pragma once

#include <cstdint>
#include <vector>

namespace pvrdma::sim {

inline constexpr std::uint32_t kExposedBytes =
    640 * 1024;  // the peer's writes, reads and atomics stay in this part
inline constexpr std::uint32_t kBigSlotBytes = 600 * 1024;  // more than two pieces
inline constexpr std::uint32_t kSlotBytes = 8 * 1024;
inline constexpr std::uint32_t kSlots = 24;
inline constexpr std::uint32_t kReceiveBytes = 4096;
inline constexpr std::uint32_t kReceives = 32;
inline constexpr std::uint32_t kBigSlotOffset = kExposedBytes;
inline constexpr std::uint32_t kSlotsOffset = kBigSlotOffset + kBigSlotBytes;
inline constexpr std::uint32_t kReceivesOffset = kSlotsOffset + kSlots * kSlotBytes;
inline constexpr std::uint32_t kBufferBytes = kReceivesOffset + kReceives * kReceiveBytes;

// The offsets of free buffers.
class Slots {
 public:
  Slots(std::uint32_t first, std::uint32_t bytes, std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) free_.push_back(first + i * bytes);
  }
  bool empty() const { return free_.empty(); }
  std::uint32_t take() {
    const std::uint32_t slot = free_.back();
    free_.pop_back();
    return slot;
  }
  void give_back(std::uint32_t slot) { free_.insert(free_.begin(), slot); }

 private:
  std::vector<std::uint32_t> free_;
};

}  // namespace pvrdma::sim
