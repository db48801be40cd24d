// FrameFault: a filter before the links that an adapter's RoCE frames leave by, which drops, doubles, delays,
// reorders and damages frames. The same seed, settings and frames give the same faults.
//
// A damaged frame goes out with one bit flipped among its last eight bytes, which the ICRC covers or are it:
// whoever gets it drops it. Late and doubled frames are copied; when no place for a copy is left, a late one
// passes on at once, and a copy is not made. All memory is taken when this is made.
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
  // `clock` is borrowed and outlives this. At most `frames_max` frames are late at a time.
  FrameFault(const FaultSettings& settings, std::uint64_t seed, std::size_t frames_max, const Clock& clock);

  const FaultCounters& faults() const { return faults_; }
  // Sends what is late, before its time. Links flush what they were given in their own time.
  void deliver_all();

  // FrameFilter. The sink lives until what is late for it has been sent, or this is gone.
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

  // False: there is no place for a copy.
  bool keep(std::size_t bytes, Instant due);
  void deliver_first();
  std::byte* copy_at(std::uint32_t place);

  const FaultSettings settings_;
  const Clock& clock_;
  fault::Dice dice_;
  FaultCounters faults_;
  roce::FrameSink* sink_ = nullptr;  // borrowed
  std::byte* frame_ = nullptr;       // its place
  Instant ordered_after_{Duration::min()};
  std::unique_ptr<std::byte[]> copies_;
  std::vector<std::uint32_t> free_;  // places in copies_
  std::vector<Late> late_;           // by time, then by coming
};

}  // namespace pvrdma::transport
