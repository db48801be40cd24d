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
    for (Frame& frame : ethernet_.frames_) {
      if (frame.from == this) frame.from = nullptr;
    }
  }

  std::byte* place() override { return room() == 0 ? nullptr : place_.data(); }
  void send(std::size_t bytes) override {
    ++counters_.sent_pkts;
    ethernet_.carry(*this, std::span(place_).first(bytes));
  }
  std::size_t room() const override {
    return ethernet_.blocked_ ? 0 : ethernet_.free_.size() / 2;  // each frame may be duplicated
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

Ethernet::Ethernet(std::uint64_t seed, const Weather& weather)
    : weather_(weather), random_(seed), frames_(kFramesMost) {
  queue_.reserve(kFramesMost);
  free_.reserve(kFramesMost);
  for (std::uint32_t i = 0; i < kFramesMost; ++i) free_.push_back(i);
}

std::unique_ptr<transport::roce::Link> Ethernet::plug(transport::roce::FrameHandler& handler) {
  return std::make_unique<Plug>(*this, handler);
}

void Ethernet::unblock() {
  tell_room_ = tell_room_ || blocked_;
  blocked_ = false;
}

void Ethernet::carry(const Plug& from, std::span<const std::byte> bytes) {
  if (chance(weather_.drop)) return;
  add(from, bytes);
  if (chance(weather_.damage))
    frames_[queue_.back()].data[random_() % bytes.size()] ^= std::byte{1} << random_() % 8;
  if (chance(weather_.duplicate)) add(from, bytes);
}

void Ethernet::add(const Plug& from, std::span<const std::byte> bytes) {
  const std::uint32_t place = free_.back();
  free_.pop_back();
  frames_[place].from = &from;
  frames_[place].bytes = bytes.size();
  std::copy(bytes.begin(), bytes.end(), frames_[place].data.begin());
  queue_.push_back(place);
}

Ethernet::Frame& Ethernet::take(std::size_t place) {
  const std::uint32_t taken = queue_[place];
  queue_.erase(queue_.begin() + static_cast<std::ptrdiff_t>(place));
  free_.push_back(taken);
  return frames_[taken];
}

bool Ethernet::run(Instant now) {
  const bool had_room = !std::exchange(tell_room_, false) && free_.size() > 1;
  for (std::size_t burst = 0; burst < transport::roce::kBurst && !queue_.empty(); ++burst) {
    const bool late = chance(weather_.late);
    const Frame frame = take(late ? random_() % std::min(queue_.size(), kLateMost) : 0);
    if (frame.from == nullptr) continue;
    for (Plug* plug : plugs_) {
      if (plug == frame.from) continue;
      plug->handler.on_frame(std::span(frame.data).first(frame.bytes), now);
      plug->handler.on_burst_end(now);
    }
  }
  if (!had_room && !blocked_) {
    for (Plug* plug : plugs_) plug->handler.on_room(now);
  }
  return !queue_.empty();
}

}  // namespace pvrdma::conformance
