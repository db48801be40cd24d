// FrameFault: a filter of the RoCE frames that an adapter sends. It drops, duplicates, delays, reorders and
// damages frames before they reach a link. The same seed, settings and frames give the same faults.
//
// A damaged frame is sent with one bit flipped in its last eight bytes. These are the ICRC and bytes that the
// ICRC covers, so the receiver drops the frame. Late and duplicated frames are copied. If no place for a copy
// is free, a late frame is sent at once, and a duplicate is not made. The constructor allocates all memory.
//
// Thread: shard-owned; a Pollable for the shard's loop.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "roce/frame_sink.h"
#include "shard/loop.h"
#include "transport/fault/settings.h"

namespace pvrdma::transport {

class FrameFault final : public roce::FrameFilter, public shard::Pollable, private roce::FrameSink {
 public:
  // `clock` is borrowed and outlives this. At most `frames_max` frames wait at the same time.
  FrameFault(const FaultSettings& settings, std::uint64_t seed, std::size_t frames_max, const Clock& clock);

  const FaultCounters& faults() const { return faults_; }
  // Sends all late frames at once. Each link flushes them in its own time.
  void deliver_all();

  // FrameFilter. The sink must outlive the late frames for it, or this.
  roce::FrameSink& before(roce::FrameSink& sink) override {
    sink_ = &sink;
    return *this;
  }

  // Pollable.
  bool run(Instant /*now*/) override { return false; }
  void on_time(Instant now) override;
  Instant next_deadline() const override { return late_.empty() ? Instant::never() : late_.front().due; }
  bool polls() const override { return false; }
  std::string what() const override { return "the fault filter of RoCE frames"; }

 private:
  struct Late {
    Instant due;
    roce::FrameSink* sink;  // borrowed
    std::size_t bytes;
    std::uint32_t place;
  };

  // FrameSink.
  std::byte* place() override { return frame_ = sink_->place(); }
  void send(std::size_t bytes) override;
  std::size_t room() const override { return sink_->room(); }

  // Copies the frame to be sent later. False: no place for a copy is free.
  bool keep(std::size_t bytes, Instant due);
  void deliver_first();
  std::byte* copy_at(std::uint32_t place);

  const FaultSettings settings_;
  const Clock& clock_;
  fault::Dice dice_;
  FaultCounters faults_;
  roce::FrameSink* sink_ = nullptr;  // borrowed
  std::byte* frame_ = nullptr;       // the place that the sink gave for the next frame
  Instant ordered_after_{Duration::min()};
  std::unique_ptr<std::byte[]> copies_;
  std::vector<std::uint32_t> free_;  // free places in copies_
  std::vector<Late> late_;           // sorted by time, then by arrival
};

}  // namespace pvrdma::transport
