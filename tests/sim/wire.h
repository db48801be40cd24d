// Wire: an Ethernet in simulated time that joins the RoCE links of hosts. Each frame goes to all other links.
// According to the weather, it is lost, duplicated, damaged, or late and so overtaken. A link has room for
// some frames, or is busy, or is down.
//
// `weather` may change at any time and applies to frames sent afterwards. Thread: the world's.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "base/time.h"
#include "sim/random.h"
#include "transport/roce/link.h"

namespace pvrdma::sim {

struct WireWeather {
  std::uint32_t drop_per_mille = 0;  // these rates are of frames
  std::uint32_t duplicate_per_mille = 0;
  std::uint32_t damage_per_mille = 0;  // one bit is flipped
  std::uint32_t late_per_mille = 0;
  Duration delay{0};  // of each frame; frames that are not late keep their order
  Duration late_max{0};
  std::uint32_t busy_per_mille = 0;  // questions for room after which a link has none for up to busy_max
  Duration busy_max{0};
};

class Wire {
 public:
  // `clock` is borrowed.
  Wire(std::uint64_t seed, const Clock& clock);
  ~Wire();  // all links are gone before

  // Plugs in host `index`, which must not be plugged in. The host owns the link and destroys it before the
  // wire.
  std::unique_ptr<transport::roce::Link> plug(std::uint32_t index, transport::roce::FrameHandler& handler);

  WireWeather weather;

  // Nothing passes between the two hosts until heal().
  void cut(std::uint32_t a, std::uint32_t b) { cut_ = std::minmax(a, b); }
  void heal() { cut_ = {}; }
  // Sets the host's link down or up. Frames that arrive while it is down are lost.
  void set_up(std::uint32_t index, bool up);
  // Loses all frames in flight.
  void lose_all();

  // When the next frame arrives, or when a busy link has room again. Never: neither will happen.
  Instant next_event() const;
  // Delivers the frames that have arrived, in bursts, and tells links that they have room. On an empty stack.
  void deliver();

  struct Tally {
    std::uint64_t carried = 0;
    std::uint64_t dropped = 0;
    std::uint64_t doubled = 0;
    std::uint64_t damaged = 0;
    std::uint64_t late = 0;
    std::uint64_t busy = 0;  // times

    Tally& operator+=(const Tally& other) {
      carried += other.carried;
      dropped += other.dropped;
      doubled += other.doubled;
      damaged += other.damaged;
      late += other.late;
      busy += other.busy;
      return *this;
    }
  };
  const Tally& tally() const { return tally_; }

 private:
  class Plug;
  struct Frame {
    std::uint32_t from;
    std::vector<std::byte> bytes;
  };

  bool is_cut(std::uint32_t a, std::uint32_t b) const {
    return cut_.first != cut_.second && cut_ == std::pair(std::min(a, b), std::max(a, b));
  }
  void carry(Plug& from, std::span<const std::byte> bytes);
  void add(Plug& from, std::span<const std::byte> bytes);
  void hand_over(const Frame& frame);
  void end_bursts();
  void tell_of_room();

  Random random_;
  const Clock& clock_;
  std::map<std::pair<Instant, std::uint64_t>, Frame> under_way_;  // by arrival, then by order of sending
  std::uint64_t sent_ = 0;
  std::vector<Plug*> plugs_;  // by host; borrowed; null: the link is gone
  std::pair<std::uint32_t, std::uint32_t> cut_;
  Tally tally_;
};

}  // namespace pvrdma::sim
