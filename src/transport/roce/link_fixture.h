// Shared by the tests of links: a loop, frames, and a handler that records its calls. Thread: the test's.
#pragma once

#include <chrono>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <span>
#include <vector>

#include "base/time.h"
#include "roce/frame.h"
#include "shard/loop.h"
#include "support/must.h"
#include "transport/roce/link.h"

namespace pvrdma::transport::roce {

using Bytes = std::vector<std::byte>;

// A RoCE v1 frame to the other end's address. No part of the kernel handles frames of this type. `mark` fills
// the payload.
inline Bytes frame_of(std::size_t bytes, std::uint8_t mark) {
  Bytes frame(bytes, std::byte{mark});
  for (std::size_t i = 0; i < 12; ++i) frame[i] = std::byte{2};
  frame[12] = std::byte{0x89};
  frame[13] = std::byte{0x15};  // RoCE v1
  return frame;
}

struct KeepingHandler final : FrameHandler {
  std::vector<Bytes> frames;
  std::vector<std::size_t> bursts;
  std::size_t in_burst = 0;
  int rooms = 0;
  std::function<void()> and_then = [] {};  // called in on_frame()

  void on_frame(std::span<const std::byte> frame, Instant /*now*/) override {
    frames.emplace_back(frame.begin(), frame.end());
    ++in_burst;
    and_then();
  }
  void on_burst_end(Instant /*now*/) override { bursts.push_back(std::exchange(in_burst, 0)); }
  void on_room(Instant /*now*/) override { ++rooms; }
};

// Runs turns until `condition` holds. False: it did not hold in time, which guards against hanging.
template <typename Condition>
bool turn_until(shard::Loop& loop, Condition condition) {
  const Instant end = Instant::now() + std::chrono::seconds(60);
  while (!condition()) {
    if (Instant::now() > end) return false;
    loop.turn(std::chrono::milliseconds(10));
  }
  return true;
}

// Sends the frame. False: the link had no place for it.
inline bool send(Link& link, const Bytes& frame) {
  std::byte* const place = link.place();
  if (place == nullptr) return false;
  std::copy(frame.begin(), frame.end(), place);
  link.send(frame.size());
  return true;
}

class LinkTest : public testing::Test {
 protected:
  template <typename Condition>
  bool turn_until(Condition condition) {
    return roce::turn_until(*loop_, condition);
  }
  bool up(const Link& link) {
    return turn_until([&] { return link.is_up(); });
  }

  SteadyClock clock_;
  const std::unique_ptr<shard::Loop> loop_ = test::must(shard::Loop::create({}, clock_));
  KeepingHandler handler_;
};

}  // namespace pvrdma::transport::roce
