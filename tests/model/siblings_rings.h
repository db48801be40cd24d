// SiblingsRings: a model for explore() of two shards that send each other requests and answer them. It shows
// why an answer never waits behind a request: requests and answers have a ring each, a shard reads requests
// only while its own answers have room, and it always reads answers. Each ring has two slots.
#pragma once

#include <array>
#include <cstdint>
#include <vector>

#include "explore.h"

namespace pvrdma::model {

enum class Rings : std::uint8_t { kTwoForEachWay, kOneForEachWay };

class SiblingsRings {
 public:
  // Of the ring or rings that a shard writes. With one ring, `order` says what is in it, the oldest in the
  // lowest bit: 0 a request, 1 an answer.
  struct Way {
    std::uint8_t requests = 0;
    std::uint8_t answers = 0;
    std::uint8_t order = 0;
    std::uint8_t count = 0;

    bool operator==(const Way&) const = default;
  };
  struct State {
    std::array<Way, 2> ways{};
    std::array<std::uint8_t, 2> to_send{kRequests, kRequests};
    std::array<std::uint8_t, 2> answered{};
    std::array<std::uint8_t, 4> spare{};

    bool operator==(const State&) const = default;
  };
  using Steps = std::vector<Step<State>>;

  explicit SiblingsRings(Rings rings) : rings_(rings) {}

  State start() const { return {}; }
  void steps(const State& state, Steps& out) const {
    for (std::uint8_t shard = 0; shard < 2; ++shard) {
      if (rings_ == Rings::kTwoForEachWay)
        with_two(state, shard, out);
      else
        with_one(state, shard, out);
    }
  }
  const char* wrong(const State& /*state*/) const { return nullptr; }
  const char* wrong_end(const State& state) const {
    return state.answered[0] + state.answered[1] == 2 * kRequests
               ? nullptr
               : "two shards wait for room in each other's ring";
  }

 private:
  static constexpr std::uint8_t kRequests = 5;
  static constexpr std::uint8_t kSlots = 2;

  static void with_two(const State& state, std::uint8_t shard, Steps& out) {
    const Way& here = state.ways[shard];
    const Way& there = state.ways[1 - shard];
    State next = state;
    if (state.to_send[shard] != 0 && here.requests < kSlots) {
      --next.to_send[shard];
      ++next.ways[shard].requests;
      out.push_back({next, "a request is sent by shard", shard});
    }
    next = state;
    if (there.requests != 0 && here.answers < kSlots) {
      --next.ways[1 - shard].requests;
      ++next.ways[shard].answers;
      out.push_back({next, "a request is answered by shard", shard});
    }
    next = state;
    if (there.answers != 0) {
      --next.ways[1 - shard].answers;
      ++next.answered[shard];
      out.push_back({next, "an answer is read by shard", shard});
    }
  }

  static void put(Way& way, bool is_answer) {
    way.order = static_cast<std::uint8_t>(way.order | (is_answer ? 1 : 0) << way.count);
    ++way.count;
  }
  static void with_one(const State& state, std::uint8_t shard, Steps& out) {
    const Way& here = state.ways[shard];
    const Way& there = state.ways[1 - shard];
    const bool has_room = here.count < kSlots;
    State next = state;
    if (state.to_send[shard] != 0 && has_room) {
      --next.to_send[shard];
      put(next.ways[shard], false);
      out.push_back({next, "a request is sent by shard", shard});
    }
    next = state;
    if (there.count == 0) return;
    const bool is_answer = (there.order & 1) != 0;
    if (!is_answer && !has_room) return;
    --next.ways[1 - shard].count;
    next.ways[1 - shard].order = static_cast<std::uint8_t>(there.order >> 1);
    if (is_answer)
      ++next.answered[shard];
    else
      put(next.ways[shard], true);
    out.push_back({next, is_answer ? "an answer is read by shard" : "a request is answered by shard", shard});
  }

  const Rings rings_;
};

}  // namespace pvrdma::model
