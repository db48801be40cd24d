// Ethernet: joins the RoCE links of hosts in one thread. Each frame goes to all other links, in the order of
// sending. According to the weather and the seed, frames are lost, duplicated, late or damaged.
//
// Once it has links, it allocates nothing. Thread: one; a Pollable for the loop that the test turns.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <span>
#include <vector>

#include "roce/frame.h"
#include "shard/loop.h"
#include "transport/roce/link.h"

namespace pvrdma::conformance {

// How many of a thousand frames each fault hits.
struct Weather {
  std::uint32_t drop = 0;
  std::uint32_t duplicate = 0;
  std::uint32_t late = 0;  // overtaken by up to kLateMost frames that were sent later
  std::uint32_t damage = 0;
};

class Ethernet final : public shard::Pollable {
 public:
  Ethernet(std::uint64_t seed, const Weather& weather);

  // Makes the link of one host. The Ethernet outlives it.
  std::unique_ptr<transport::roce::Link> plug(transport::roce::FrameHandler& handler);
  // No link has room, until unblock().
  void block() { blocked_ = true; }
  void unblock();

  bool run(Instant now) override;
  void on_time(Instant /*now*/) override {}
  Instant next_deadline() const override { return queue_.empty() ? Instant::never() : Instant{}; }
  bool polls() const override { return false; }
  std::string what() const override { return "the Ethernet"; }

 private:
  class Plug;
  struct Frame {
    const Plug* from;  // null: the link is gone
    std::size_t bytes;
    std::array<std::byte, roce::kFrameBytesMax> data;
  };
  static constexpr std::size_t kLateMost = 16;
  static constexpr std::size_t kFramesMost = 1024;  // in flight at a time

  bool chance(std::uint32_t per_mille) { return per_mille != 0 && random_() % 1000 < per_mille; }
  void carry(const Plug& from, std::span<const std::byte> bytes);
  void add(const Plug& from, std::span<const std::byte> bytes);
  // Takes the frame at that place of the queue.
  Frame& take(std::size_t place);

  const Weather weather_;
  std::mt19937_64 random_;
  bool blocked_ = false;
  bool tell_room_ = false;
  std::vector<Frame> frames_;         // kFramesMost
  std::vector<std::uint32_t> queue_;  // places in frames_, the oldest first
  std::vector<std::uint32_t> free_;   // the unused places in frames_
  std::vector<Plug*> plugs_;          // borrowed; each removes itself in its destructor
};

}  // namespace pvrdma::conformance
