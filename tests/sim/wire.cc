#include "sim/wire.h"

#include "roce/frame.h"

namespace pvrdma::sim {

class Wire::Plug final : public transport::roce::Link {
 public:
  static constexpr std::size_t kFramesMost = 512;  // in flight at a time

  Plug(Wire& wire, std::uint32_t at, transport::roce::FrameHandler& receiver)
      : handler(receiver), index(at), wire_(wire) {}
  ~Plug() override { wire_.plugs_[index] = nullptr; }

  std::byte* place() override {
    waits = waits || !has_room();
    return has_room() ? place_.data() : nullptr;
  }
  void send(std::size_t bytes) override {
    ++counters_.sent_pkts;
    ++sent_since_busy_;
    wire_.carry(*this, std::span(place_).first(bytes));
  }
  std::size_t room() const override {
    if (has_room() && sent_since_busy_ >= kSentBetween &&
        wire_.random_.chance(wire_.weather.busy_per_mille)) {
      ++wire_.tally_.busy;
      sent_since_busy_ = 0;
      busy_until = wire_.clock_.now() + wire_.random_.up_to(wire_.weather.busy_max);
    }
    waits = waits || !has_room();
    return has_room() ? (kFramesMost - queued) / 2 : 0;  // each frame may be duplicated
  }
  void flush(Instant /*now*/) override {}
  bool is_up() const override { return up; }
  std::string trouble() const override { return up ? "" : "the simulated link is down"; }
  std::string what() const override { return "the wire"; }
  const transport::roce::LinkCounters& counters() const override { return counters_; }

  bool has_room() const { return up && busy_until == Instant::never() && queued + 1 < kFramesMost; }

  transport::roce::FrameHandler& handler;
  const std::uint32_t index;
  bool up = true;
  std::size_t queued = 0;                         // frames in flight from this link
  mutable Instant busy_until = Instant::never();  // never: not busy
  mutable bool waits = false;                     // a sender was refused room
  std::size_t burst = 0;                          // frames delivered since on_burst_end()

 private:
  // The fewest frames between two busy times, so that a sender that always comes first is not always refused.
  static constexpr std::size_t kSentBetween = 40;

  Wire& wire_;
  mutable std::size_t sent_since_busy_ = 0;
  transport::roce::LinkCounters counters_;
  std::array<std::byte, pvrdma::roce::kFrameBytesMax> place_{};
};

Wire::Wire(std::uint64_t seed, const Clock& clock) : random_(seed), clock_(clock) {}

Wire::~Wire() = default;

std::unique_ptr<transport::roce::Link> Wire::plug(std::uint32_t index,
                                                  transport::roce::FrameHandler& handler) {
  if (plugs_.size() <= index) plugs_.resize(index + 1);
  auto made = std::make_unique<Plug>(*this, index, handler);
  plugs_[index] = made.get();
  return made;
}

void Wire::set_up(std::uint32_t index, bool up) {
  if (plugs_[index] != nullptr) plugs_[index]->up = up;
}

void Wire::lose_all() {
  tally_.dropped += under_way_.size();
  under_way_.clear();
  for (Plug* plug : plugs_) {
    if (plug != nullptr) plug->queued = 0;
  }
}

void Wire::carry(Plug& from, std::span<const std::byte> bytes) {
  ++tally_.carried;
  if (random_.chance(weather.drop_per_mille)) {
    ++tally_.dropped;
    return;
  }
  add(from, bytes);
  if (random_.chance(weather.duplicate_per_mille)) {
    ++tally_.doubled;
    add(from, bytes);
  }
}

void Wire::add(Plug& from, std::span<const std::byte> bytes) {
  Instant at = clock_.now() + weather.delay;
  if (random_.chance(weather.late_per_mille)) {
    ++tally_.late;
    at = at + random_.up_to(weather.late_max);
  }
  Frame frame{from.index, {bytes.begin(), bytes.end()}};
  if (random_.chance(weather.damage_per_mille)) {
    ++tally_.damaged;
    const std::uint32_t bit = random_.below(static_cast<std::uint32_t>(8 * bytes.size()));
    frame.bytes[bit / 8] ^= std::byte{1} << bit % 8;
  }
  under_way_.emplace(std::pair(at, ++sent_), std::move(frame));
  ++from.queued;
}

void Wire::hand_over(const Frame& frame) {
  for (Plug* plug : plugs_) {
    if (plug == nullptr || plug->index == frame.from || !plug->up) continue;
    if (is_cut(plug->index, frame.from)) continue;
    plug->handler.on_frame(frame.bytes, clock_.now());
    ++plug->burst;
  }
}

void Wire::end_bursts() {
  for (Plug* plug : plugs_) {
    if (plug == nullptr || plug->burst == 0) continue;
    plug->burst = 0;
    plug->handler.on_burst_end(clock_.now());
  }
}

void Wire::tell_of_room() {
  for (Plug* plug : plugs_) {
    if (plug == nullptr) continue;
    if (plug->busy_until <= clock_.now()) plug->busy_until = Instant::never();
    if (!plug->waits || !plug->has_room()) continue;
    plug->waits = false;
    plug->handler.on_room(clock_.now());
  }
}

void Wire::deliver() {
  std::uint32_t burst = random_.between(1, transport::roce::kBurst);
  while (!under_way_.empty() && under_way_.begin()->first.first <= clock_.now()) {
    const auto arrived = under_way_.extract(under_way_.begin());
    if (Plug* from = plugs_[arrived.mapped().from]; from != nullptr) --from->queued;
    hand_over(arrived.mapped());
    if (--burst != 0) continue;
    end_bursts();
    burst = random_.between(1, transport::roce::kBurst);
  }
  end_bursts();
  tell_of_room();
}

Instant Wire::next_event() const {
  Instant next = under_way_.empty() ? Instant::never() : under_way_.begin()->first.first;
  for (const Plug* plug : plugs_) {
    if (plug != nullptr) next = std::min(next, plug->busy_until);
  }
  return next;
}

}  // namespace pvrdma::sim
