#include "conformance/ethernet.h"

#include <algorithm>
#include <array>
#include <utility>

#include "roce/frame.h"

namespace pvrdma::conformance {

class Ethernet::Plug final : public transport::roce::Link {
 public:
  Plug(Ethernet& ethernet, transport::roce::FrameHandler& receiver) : handler(receiver), ethernet_(ethernet) {
    ethernet_.plugs_.push_back(this);
  }
  ~Plug() override {
    std::erase(ethernet_.plugs_, this);
    std::erase_if(ethernet_.frames_, [this](const Frame& frame) { return frame.from == this; });
  }

  std::byte* place() override { return room() == 0 ? nullptr : place_.data(); }
  void send(std::size_t bytes) override {
    ++counters_.sent_pkts;
    ethernet_.carry({this, {place_.begin(), place_.begin() + static_cast<std::ptrdiff_t>(bytes)}});
  }
  std::size_t room() const override {
    const std::size_t taken = std::min(ethernet_.frames_.size(), kFramesMost);
    return ethernet_.blocked_ ? 0 : kFramesMost - taken;
  }
  void flush(Instant /*now*/) override {}
  bool is_up() const override { return true; }
  std::string trouble() const override { return {}; }
  std::string what() const override { return "the Ethernet"; }
  const transport::roce::LinkCounters& counters() const override { return counters_; }

  transport::roce::FrameHandler& handler;

 private:
  Ethernet& ethernet_;
  transport::roce::LinkCounters counters_;
  std::array<std::byte, pvrdma::roce::kFrameBytesMax> place_{};
};

std::unique_ptr<transport::roce::Link> Ethernet::plug(transport::roce::FrameHandler& handler) {
  return std::make_unique<Plug>(*this, handler);
}

void Ethernet::unblock() {
  tell_room_ = tell_room_ || blocked_;
  blocked_ = false;
}

void Ethernet::carry(Frame frame) {
  if (chance(weather_.drop)) return;
  if (chance(weather_.damage)) frame.bytes[random_() % frame.bytes.size()] ^= std::byte{1} << random_() % 8;
  if (chance(weather_.duplicate)) frames_.push_back(frame);
  frames_.push_back(std::move(frame));
}

bool Ethernet::run(Instant now) {
  const bool had_room = !std::exchange(tell_room_, false) && frames_.size() < kFramesMost;
  for (std::size_t burst = 0; burst < transport::roce::kBurst && !frames_.empty(); ++burst) {
    auto next = frames_.begin();
    if (chance(weather_.late))
      next += static_cast<std::ptrdiff_t>(random_() % std::min(frames_.size(), kLateMost));
    const Frame frame = std::move(*next);
    frames_.erase(next);
    for (Plug* plug : plugs_) {
      if (plug == frame.from) continue;
      plug->handler.on_frame(frame.bytes, now);
      plug->handler.on_burst_end(now);
    }
  }
  if (!had_room && !blocked_) {
    for (Plug* plug : plugs_) plug->handler.on_room(now);
  }
  return !frames_.empty();
}

}  // namespace pvrdma::conformance
