#include "capture/reader.h"

#include <fmt/core.h>
#include <utility>

#include "capture/pcapng.h"

namespace pvrdma::capture {

Reader::Reader(std::shared_ptr<Capture> capture, ReaderOptions options, Instant now,
               std::chrono::system_clock::time_point wall)
    : capture_(std::move(capture)),
      options_(std::move(options)),
      wall_offset_(std::chrono::duration_cast<std::chrono::nanoseconds>(wall.time_since_epoch()) -
                   now.since_start),
      synthesis_(options_.mac, options_.version, capture_->snap_bytes),
      statistics_due_(now + kStatisticsEvery) {
  if (options_.duration) ends_ = now + *options_.duration;
}

bool Reader::read(std::string& out, Instant now) {
  if (ended_) return false;
  if (!begun_) begin(out);
  const std::size_t end = out.size() + kBytesAtOnce;
  const bool is_late = ends_ && now >= *ends_;
  // Read before the ring is drained: the shard sets the flag after its last record.
  const bool is_gone = capture_->adapter_gone;
  bool is_drained = false;
  Record record;
  while (!ended_ && out.size() < end) {
    if (!capture_->ring.take(record, payload_)) {
      is_drained = true;
      break;
    }
    if (is_late && record.time >= *ends_) {
      is_drained = true;
      break;
    }
    if (options_.filter.matches(record)) add(record, out);
  }
  ended_ = ended_ || (is_drained && (is_late || is_gone));
  if (ended_ || now >= statistics_due_) add_statistics(out, now);
  return !ended_;
}

void Reader::end_at(Instant end) {
  if (!ends_ || end < *ends_) ends_ = end;
}

void Reader::begin(std::string& out) {
  begun_ = true;
  add_section(
      out,
      fmt::format("Adapter {}: RoCE frames synthesised by pvrdmad from the adapter's messages; none was "
                  "on a wire. PSNs, keys and payload are the guests' own; the peers' Ethernet addresses "
                  "and the MSNs are made up. Interfaces: the kind of path that the messages took.",
                  options_.adapter),
      options_.application);
  for (std::size_t i = 0; i < transport::kPathKinds; ++i) {
    const std::string_view path = to_text(static_cast<transport::PathKind>(i));
    add_interface(out, fmt::format("{} {}", options_.adapter, path),
                  fmt::format("frames synthesised of messages that took the path {}", path),
                  capture_->snap_bytes);
  }
}

void Reader::add(const Record& record, std::string& out) {
  const auto path = static_cast<std::uint32_t>(record.path);
  synthesis_.frames_of(record, payload_, [&](std::span<const std::byte> kept, std::size_t bytes) {
    if (ended_) return;
    add_frame(out, path, wall_ns(record.time), record.direction, kept, bytes);
    ++received_[path];
    ended_ = ++frames_ == options_.frames_max;
  });
}

// The path of a lost frame is unknown, so all are counted at the first interface.
void Reader::add_statistics(std::string& out, Instant now) {
  statistics_due_ = now + kStatisticsEvery;
  const std::uint64_t lost = capture_->lost_frames.load(std::memory_order_relaxed);
  for (std::uint32_t i = 0; i < received_.size(); ++i) {
    capture::add_statistics(out, i, wall_ns(now), received_[i], i == 0 ? lost : 0);
  }
}

std::uint64_t Reader::wall_ns(Instant time) const {
  return static_cast<std::uint64_t>((time.since_start + wall_offset_).count());
}

}  // namespace pvrdma::capture
