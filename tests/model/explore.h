// explore(): visits all states that a model can reach, breadth first. So if a state is wrong, it reports a
// shortest sequence of steps to it.
//
// A Model is a pure description. It has:
//   State start() const;
//   void steps(const State&, std::vector<Step<State>>&);  appends each step, none of which changes nothing
//   const char* wrong(const State&) const;      what is wrong with a state; null: nothing
//   const char* wrong_end(const State&) const;  the same of a state without steps
// No sequence of steps may be endless. So each run ends in a state without steps, however unfair the
// scheduling is.
//
// All states are kept, with about 40 bytes for each besides. Thread: one.
#pragma once

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <cstring>
#include <string>
#include <type_traits>
#include <vector>

#include "base/check.h"

namespace pvrdma::model {

inline constexpr std::size_t kStatesMax = 20'000'000;  // with more, the model's bounds are a mistake

template <typename State>
struct Step {
  State next;
  const char* what;  // for people
  int whose;         // the number of the thread or queue in `what`; -1: no number
};

struct Exploration {
  std::size_t states = 0;
  std::size_t ends = 0;            // states without steps
  std::string wrong;               // empty: nothing
  std::vector<std::string> trace;  // the steps to the wrong state
};

template <typename Model>
class Explorer {
 public:
  using State = typename Model::State;
  static_assert(std::has_unique_object_representations_v<State>, "states are compared as bytes");
  static_assert(sizeof(State) % sizeof(std::uint64_t) == 0, "and hashed as words");

  explicit Explorer(Model& model) : model_(model), slots_(1024, kNone) {}

  Exploration run() {
    Exploration found;
    find_or_add(model_.start(), kNone);
    std::vector<Step<State>> steps;
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      const State state = states_[at];  // a copy, because adding moves the states
      if (const char* wrong = model_.wrong(state)) return failed(wrong, at);
      first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
      steps.clear();
      model_.steps(state, steps);
      for (const Step<State>& step : steps) {
        PVRDMA_CHECK(!(step.next == state), "a step that changes nothing");
        edges_.push_back(find_or_add(step.next, at));
      }
      if (!steps.empty()) continue;
      ++found.ends;
      if (const char* wrong = model_.wrong_end(state)) return failed(wrong, at);
    }
    first_edge_.push_back(static_cast<std::uint32_t>(edges_.size()));
    found.states = states_.size();
    if (!always_ends()) found.wrong = "a sequence of steps has no end";
    return found;
  }

 private:
  static constexpr std::uint32_t kNone = 0xffff'ffff;

  static std::uint64_t hash_of(const State& state) {
    std::uint64_t hash = 0x9e37'79b9'7f4a'7c15;
    std::array<std::uint64_t, sizeof(State) / sizeof(std::uint64_t)> words;
    std::memcpy(words.data(), &state, sizeof(State));
    for (const std::uint64_t word : words) hash = std::rotl((hash ^ word) * 0xff51'afd7'ed55'8ccd, 29);
    return hash ^ hash >> 32;
  }

  std::uint32_t find_or_add(const State& state, std::uint32_t parent) {
    if (states_.size() * 2 >= slots_.size()) grow();
    std::size_t slot = hash_of(state) & (slots_.size() - 1);
    for (; slots_[slot] != kNone; slot = (slot + 1) & (slots_.size() - 1)) {
      if (states_[slots_[slot]] == state) return slots_[slot];
    }
    PVRDMA_CHECK(states_.size() < kStatesMax, "more states than these bounds should have");
    slots_[slot] = static_cast<std::uint32_t>(states_.size());
    states_.push_back(state);
    parents_.push_back(parent);
    return slots_[slot];
  }

  void grow() {
    slots_.assign(slots_.size() * 2, kNone);
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      std::size_t slot = hash_of(states_[at]) & (slots_.size() - 1);
      while (slots_[slot] != kNone) slot = (slot + 1) & (slots_.size() - 1);
      slots_[slot] = at;
    }
  }

  // Removes states to which no remaining state leads, repeatedly. If some remain, they form a circle.
  bool always_ends() const {
    std::vector<std::uint32_t> leading_here(states_.size(), 0);
    for (const std::uint32_t to : edges_) ++leading_here[to];
    std::vector<std::uint32_t> free{0};
    std::size_t taken = 0;
    if (leading_here[0] != 0) return false;
    while (!free.empty()) {
      const std::uint32_t at = free.back();
      free.pop_back();
      ++taken;
      for (std::uint32_t edge = first_edge_[at]; edge < first_edge_[at + 1]; ++edge) {
        if (--leading_here[edges_[edge]] == 0) free.push_back(edges_[edge]);
      }
    }
    return taken == states_.size();
  }

  Exploration failed(const char* wrong, std::uint32_t at) {
    Exploration found{.states = states_.size(), .wrong = wrong};
    std::vector<Step<State>> steps;
    for (; parents_[at] != kNone; at = parents_[at]) {
      steps.clear();
      model_.steps(states_[parents_[at]], steps);
      const auto taken = std::find_if(steps.begin(), steps.end(),
                                      [&](const Step<State>& step) { return step.next == states_[at]; });
      const std::string whose = taken->whose < 0 ? "" : " " + std::to_string(taken->whose);
      found.trace.insert(found.trace.begin(), taken->what + whose);
    }
    return found;
  }

  Model& model_;  // borrowed
  std::vector<State> states_;
  std::vector<std::uint32_t> parents_;     // by state
  std::vector<std::uint32_t> first_edge_;  // by visited state, and one more
  std::vector<std::uint32_t> edges_;       // the states to which the steps lead
  std::vector<std::uint32_t> slots_;       // hash table of states, at most half full
};

template <typename Model>
Exploration explore(Model& model) {
  return Explorer<Model>(model).run();
}

}  // namespace pvrdma::model
