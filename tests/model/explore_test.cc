// Tests of the explorer, and of the store buffers against known behaviour of x86 processors.
#include "explore.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "store_buffer.h"

namespace pvrdma::model {
namespace {

using testing::ElementsAre;

// Counts by 1 or 2 up to `last`, which may be wrong, or starts again there.
struct Counter {
  struct State {
    std::uint64_t value = 0;
    bool operator==(const State&) const = default;
  };
  std::uint64_t last = 0;
  bool round = false;
  bool last_is_wrong = false;

  State start() const { return {}; }
  void steps(const State& state, std::vector<Step<State>>& out) const {
    for (const std::uint64_t by : {1u, 2u}) {
      if (state.value + by <= last) out.push_back({{state.value + by}, "adds", static_cast<int>(by)});
    }
    if (round && state.value == last) out.push_back({{0}, "starts again", -1});
  }
  const char* wrong(const State&) const { return nullptr; }
  const char* wrong_end(const State& state) const {
    return last_is_wrong && state.value == last ? "it is the last" : nullptr;
  }
};

TEST(Explore, visits_each_state_once) {
  Counter counter{.last = 10'000};
  const Exploration found = explore(counter);
  EXPECT_EQ(found.states, 10'001u);
  EXPECT_EQ(found.ends, 1u);
  EXPECT_EQ(found.wrong, "");
}

TEST(Explore, tells_the_shortest_way_to_what_is_wrong) {
  Counter counter{.last = 4, .last_is_wrong = true};
  const Exploration found = explore(counter);
  EXPECT_EQ(found.wrong, "it is the last");
  EXPECT_THAT(found.trace, ElementsAre("adds 2", "adds 2"));
}

TEST(Explore, finds_sequences_without_end) {
  Counter from_the_start{.last = 4, .round = true};
  EXPECT_EQ(explore(from_the_start).wrong, "a sequence of steps has no end");
}

// Two threads, each with a buffer and two steps.
struct Litmus {
  struct State {
    Memory memory;
    std::array<StoreBuffer, 2> buffers;
    std::array<std::uint8_t, 2> at{};  // the thread's next step
    std::array<std::uint8_t, 2> loaded{};
    std::array<std::uint8_t, 4> unused{};  // pads a state to whole words
    bool operator==(const State&) const = default;
  };
  enum class Test { kStoreLoad, kStoreLockedLoad, kOwnStore, kStoreStore };
  static constexpr std::uint8_t kX = 1;
  static constexpr std::uint8_t kY = 2;
  Test test;

  State start() const { return {}; }
  void steps(const State& state, std::vector<Step<State>>& out) const {
    for (std::uint8_t thread = 0; thread < 2; ++thread) {
      if (!state.buffers[thread].empty()) {
        State next = state;
        next.buffers[thread].drain_one(next.memory);
        out.push_back({next, "drains", thread});
      }
      if (state.at[thread] == 2) continue;
      State next = state;
      ++next.at[thread];
      step(next, thread, state.at[thread]);
      out.push_back({next, "goes on", thread});
    }
  }
  void step(State& state, std::uint8_t thread, std::uint8_t at) const {
    StoreBuffer& buffer = state.buffers[thread];
    const std::uint8_t own = thread == 0 ? kX : kY;
    const std::uint8_t others = thread == 0 ? kY : kX;
    if (test == Test::kStoreStore) {  // thread 0 stores X, then Y; thread 1 loads Y, then X
      const std::uint8_t address = (thread == 0) == (at == 0) ? kX : kY;
      if (thread == 0) {
        buffer.store(address, 1);
      } else {
        state.loaded[at] = buffer.load(address, state.memory);
      }
    } else if (at == 0) {
      buffer.store(own, 1);
      if (test == Test::kStoreLockedLoad) buffer.drain(state.memory);
    } else {
      state.loaded[thread] = buffer.load(test == Test::kOwnStore ? own : others, state.memory);
    }
  }
  const char* wrong(const State&) const { return nullptr; }
  const char* wrong_end(const State& state) const {
    const auto [first, second] = state.loaded;
    switch (test) {
      case Test::kStoreLoad:
      case Test::kStoreLockedLoad:
        return first == 0 && second == 0 ? "neither sees the other's store" : nullptr;
      case Test::kOwnStore:
        return first == 0 || second == 0 ? "one does not see its own store" : nullptr;
      case Test::kStoreStore:
        return first == 1 && second == 0 ? "the second store is seen without the first" : nullptr;
    }
    return nullptr;
  }
};

std::string outcome_of(Litmus::Test test) {
  Litmus litmus{test};
  return explore(litmus).wrong;
}

TEST(StoreBuffers, let_a_load_overtake_the_store_before_it) {
  EXPECT_EQ(outcome_of(Litmus::Test::kStoreLoad), "neither sees the other's store");
}

TEST(StoreBuffers, let_nothing_overtake_a_locked_operation) {
  EXPECT_EQ(outcome_of(Litmus::Test::kStoreLockedLoad), "");
}

TEST(StoreBuffers, show_a_thread_its_own_stores) {
  EXPECT_EQ(outcome_of(Litmus::Test::kOwnStore), "");
}

TEST(StoreBuffers, keep_the_order_of_stores) {
  EXPECT_EQ(outcome_of(Litmus::Test::kStoreStore), "");
}

}  // namespace
}  // namespace pvrdma::model
