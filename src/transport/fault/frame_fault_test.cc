// Tests what happens to frames before a link when faults are injected.
#include "transport/fault/frame_fault.h"

#include <array>
#include <bit>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "roce/frame.h"
#include "support/manual_clock.h"

namespace pvrdma::transport {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr std::uint32_t kAlways = 1'000'000;
constexpr std::size_t kFrameBytes = 100;

class Sink final : public roce::FrameSink {
 public:
  std::byte* place() override { return full ? nullptr : place_.data(); }
  void send(std::size_t bytes) override {
    frames.emplace_back(place_.begin(), place_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  std::size_t room() const override { return full ? 0 : 8; }

  std::vector<std::vector<std::byte>> frames;
  bool full = false;

 private:
  std::array<std::byte, roce::kFrameBytesMax> place_{};
};

class FrameFaultTest : public ::testing::Test {
 protected:
  FrameFault fault(const FaultSettings& settings, std::size_t frames_max = 8) {
    return {settings, 7, frames_max, clock_};
  }
  // Sends a frame whose bytes are all `seed`.
  void send(FrameFault& fault, std::uint8_t seed) {
    roce::FrameSink& sink = fault.before(sink_);
    std::byte* const place = sink.place();
    ASSERT_NE(place, nullptr);
    std::fill_n(place, kFrameBytes, std::byte{seed});
    sink.send(kFrameBytes);
  }
  // The first byte of each frame that reached the link.
  std::vector<int> left() const {
    std::vector<int> out;
    for (const auto& frame : sink_.frames) {
      EXPECT_THAT(frame, SizeIs(kFrameBytes));
      out.push_back(std::to_integer<int>(frame.front()));
    }
    return out;
  }
  void advance(FrameFault& fault, Duration time) {
    clock_.advance(time);
    fault.on_time(clock_.now());
  }

  test::ManualClock clock_;
  Sink sink_;
};

TEST_F(FrameFaultTest, PassesWhatMeetsNone) {
  FrameFault none = fault({});
  send(none, 1);
  send(none, 2);
  EXPECT_THAT(left(), ElementsAre(1, 2));
  EXPECT_EQ(none.before(sink_).room(), 8u);
  sink_.full = true;
  EXPECT_EQ(none.before(sink_).place(), nullptr);
  EXPECT_EQ(none.next_deadline(), Instant::never());
  EXPECT_EQ(none.faults().messages, 2u);
}

TEST_F(FrameFaultTest, DropsSome) {
  FrameFault half = fault({.drop_ppm = kAlways / 2});
  for (int i = 0; i < 100; ++i) send(half, 1);
  EXPECT_EQ(half.faults().dropped + left().size(), 100u);
  EXPECT_GT(half.faults().dropped, 20u);
  EXPECT_GT(left().size(), 20u);
}

TEST_F(FrameFaultTest, FlipsOneOfTheLastBits) {
  FrameFault all = fault({.corrupt_ppm = kAlways});
  for (int i = 0; i < 50; ++i) send(all, 0);
  ASSERT_THAT(sink_.frames, SizeIs(50));
  for (const auto& frame : sink_.frames) {
    int flipped = 0;
    for (std::size_t at = 0; at < frame.size(); ++at) {
      const int here = std::popcount(std::to_integer<unsigned>(frame[at]));
      EXPECT_TRUE(here == 0 || at >= kFrameBytes - 8) << at;
      flipped += here;
    }
    EXPECT_EQ(flipped, 1);
  }
  EXPECT_EQ(all.faults().corrupted, 50u);
}

TEST_F(FrameFaultTest, DoublesLate) {
  FrameFault all =
      fault({.duplicate_ppm = kAlways, .late_min = milliseconds(2), .late_max = milliseconds(2)});
  send(all, 1);
  EXPECT_THAT(left(), ElementsAre(1));
  EXPECT_EQ(all.next_deadline(), clock_.now() + milliseconds(2));
  advance(all, milliseconds(1));
  EXPECT_THAT(left(), ElementsAre(1));
  advance(all, milliseconds(1));
  EXPECT_THAT(left(), ElementsAre(1, 1));
  EXPECT_EQ(all.faults().duplicated, 1u);
}

TEST_F(FrameFaultTest, KeepsTheOrderOfWhatIsDelayed) {
  FrameFault all = fault({.delay_ppm = kAlways, .late_max = milliseconds(10)});
  for (std::uint8_t i = 1; i <= 6; ++i) send(all, i);
  advance(all, milliseconds(10));
  EXPECT_THAT(left(), ElementsAre(1, 2, 3, 4, 5, 6));
  EXPECT_EQ(all.faults().delayed, 6u);
}

TEST_F(FrameFaultTest, LetsOthersOvertakeWhatIsReordered) {
  FrameFault some =
      fault({.reorder_ppm = kAlways / 3, .late_min = milliseconds(1), .late_max = milliseconds(1)}, 64);
  for (std::uint8_t i = 1; i <= 30; ++i) send(some, i);
  const std::size_t at_once = left().size();
  EXPECT_EQ(at_once + some.faults().reordered, 30u);
  EXPECT_GT(some.faults().reordered, 0u);
  advance(some, milliseconds(1));
  EXPECT_EQ(left().size(), 30u);
}

TEST_F(FrameFaultTest, WithoutPlacesForCopiesNothingIsLate) {
  FrameFault all = fault({.reorder_ppm = kAlways, .late_min = milliseconds(1)}, 2);
  for (std::uint8_t i = 1; i <= 4; ++i) send(all, i);
  EXPECT_THAT(left(), ElementsAre(3, 4));
  EXPECT_EQ(all.faults().no_copy, 2u);
  all.deliver_all();
  EXPECT_THAT(left(), ElementsAre(3, 4, 1, 2));
  send(all, 5);
  EXPECT_EQ(all.faults().reordered, 3u) << "the places are free again";
}

TEST_F(FrameFaultTest, WhatIsLateIsLostWhereTheLinkIsFull) {
  FrameFault all = fault({.reorder_ppm = kAlways});
  send(all, 1);
  sink_.full = true;
  advance(all, milliseconds(1));
  EXPECT_THAT(left(), IsEmpty());
  EXPECT_EQ(all.faults().late_lost, 1u);
  EXPECT_EQ(all.next_deadline(), Instant::never());
}

}  // namespace
}  // namespace pvrdma::transport
