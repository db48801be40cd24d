// FakeLink: a link whose other end is the test. It records the frames that are sent, and the test delivers
// those that arrive. Thread: a test's.
#pragma once

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "roce/frame.h"
#include "transport/roce/link.h"
#include "transport/roce/roce.h"

namespace pvrdma::transport::roce {

class FakeLink final : public Link {
 public:
  using Bytes = std::vector<std::byte>;

  // Adds a link that leads to the segment. `roce` owns it.
  static FakeLink& add(Roce& roce, SegmentId segment) {
    FakeLink* made = nullptr;
    const auto number = roce.add_link([&made](FrameHandler& handler) -> Result<std::unique_ptr<Link>> {
      auto link = std::make_unique<FakeLink>(handler);
      made = link.get();
      return link;
    });
    roce.assign(*number, segment);
    return *made;
  }
  explicit FakeLink(FrameHandler& handler) : handler_(handler) {}

  std::optional<std::size_t> mtu;  // what mtu_bytes() answers

  // Delivers a burst of one frame.
  void deliver(std::span<const std::byte> frame, Instant now) {
    handler_.on_frame(frame, now);
    handler_.on_burst_end(now);
  }
  // The frames sent since the last call.
  std::vector<Bytes> sent() { return std::exchange(frames_, {}); }

  // FrameSink and Link.
  std::byte* place() override { return place_.data(); }
  void send(std::size_t bytes) override {
    frames_.emplace_back(place_.begin(), place_.begin() + static_cast<std::ptrdiff_t>(bytes));
  }
  std::size_t room() const override { return 1000; }
  void flush(Instant /*now*/) override {}
  bool is_up() const override { return true; }
  std::string trouble() const override { return {}; }
  std::optional<std::size_t> mtu_bytes() const override { return mtu; }
  std::string what() const override { return "fake"; }
  const LinkCounters& counters() const override { return counters_; }

 private:
  FrameHandler& handler_;
  std::array<std::byte, pvrdma::roce::kFrameBytesMax> place_{};
  std::vector<Bytes> frames_;
  LinkCounters counters_;
};

}  // namespace pvrdma::transport::roce
