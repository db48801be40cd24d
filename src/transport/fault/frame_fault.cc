#include "transport/fault/frame_fault.h"

#include <algorithm>
#include <cstring>

#include "roce/frame.h"

namespace pvrdma::transport {
namespace {

constexpr std::size_t kTailBytes = 8;  // of every frame: the end of the BTH or payload, and the ICRC

}  // namespace

FrameFault::FrameFault(const FaultSettings& settings, std::uint64_t seed, std::size_t frames_max,
                       const Clock& clock)
    : settings_(settings),
      clock_(clock),
      dice_(seed),
      copies_(std::make_unique_for_overwrite<std::byte[]>(frames_max * roce::kFrameBytesMax)) {
  free_.reserve(frames_max);
  late_.reserve(frames_max);
  for (std::size_t i = frames_max; i != 0; --i) free_.push_back(static_cast<std::uint32_t>(i - 1));
}

std::byte* FrameFault::copy_at(std::uint32_t place) {
  return copies_.get() + place * roce::kFrameBytesMax;
}

bool FrameFault::keep(std::size_t bytes, Instant due) {
  if (free_.empty()) {
    ++faults_.no_copy;
    return false;
  }
  const std::uint32_t place = free_.back();
  free_.pop_back();
  std::memcpy(copy_at(place), frame_, bytes);
  const auto behind = std::ranges::upper_bound(late_, due, {}, &Late::due);
  late_.insert(behind, Late{due, sink_, bytes, place});
  return true;
}

// A frame that is not passed to the sink leaves its place free for the next frame.
void FrameFault::send(std::size_t bytes) {
  ++faults_.messages;
  if (dice_.chance(settings_.drop_ppm)) {
    ++faults_.dropped;
    return;
  }
  if (dice_.chance(settings_.corrupt_ppm)) {
    ++faults_.corrupted;
    const std::uint64_t bit = dice_.below(kTailBytes * 8);
    frame_[bytes - 1 - bit / 8] ^= std::byte{1} << (bit % 8);
  }
  const Instant now = clock_.now();
  if (dice_.chance(settings_.duplicate_ppm) && keep(bytes, dice_.late(settings_, now))) ++faults_.duplicated;
  if (dice_.chance(settings_.reorder_ppm) && keep(bytes, dice_.late(settings_, now))) {
    ++faults_.reordered;
    return;
  }
  if (dice_.chance(settings_.delay_ppm))
    ordered_after_ = std::max(ordered_after_, dice_.late(settings_, now));
  // A frame that is already due may still wait for its delivery.
  const bool is_held_up = ordered_after_ > now || next_deadline() <= ordered_after_;
  if (is_held_up && keep(bytes, ordered_after_)) {
    ++faults_.delayed;
    return;
  }
  sink_->send(bytes);
}

void FrameFault::deliver_first() {
  const Late first = late_.front();
  late_.erase(late_.begin());
  if (std::byte* const place = first.sink->place(); place != nullptr) {
    std::memcpy(place, copy_at(first.place), first.bytes);
    first.sink->send(first.bytes);
  } else {
    ++faults_.late_lost;
  }
  free_.push_back(first.place);
}

void FrameFault::deliver_all() {
  while (!late_.empty()) deliver_first();
}

void FrameFault::on_time(Instant now) {
  while (next_deadline() <= now) deliver_first();
}

}  // namespace pvrdma::transport
