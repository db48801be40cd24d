#include "device/life.h"

#include <gtest/gtest.h>
#include <map>
#include <set>
#include <vector>

namespace pvrdma::device {
namespace {

template <typename State>
using Row = std::vector<std::optional<State>>;
template <typename State>
using Table = std::map<LifeEvent, Row<State>>;

constexpr auto kNever = std::nullopt;

// Each row lists the successors of `states` at its event. An event without a row changes nothing.
template <typename State>
void expect_table(const std::vector<State>& states, const Table<State>& table) {
  for (int number = 0; number < kLifeEvents; ++number) {
    const auto event = static_cast<LifeEvent>(number);
    const auto row = table.find(event);
    for (std::size_t i = 0; i < states.size(); ++i) {
      const std::optional<State> expected = row != table.end() ? row->second.at(i) : states[i];
      EXPECT_EQ(after(states[i], event), expected) << "event " << number << ", state " << i;
    }
  }
}

// Some sequence of events leads from the first state to each of the `count` states.
template <typename State>
void expect_reachable(State first, std::size_t count) {
  std::set<State> reached{first};
  std::vector<State> to_do{first};
  while (!to_do.empty()) {
    const State state = to_do.back();
    to_do.pop_back();
    for (int number = 0; number < kLifeEvents; ++number) {
      const auto next = after(state, static_cast<LifeEvent>(number));
      if (next && reached.insert(*next).second) to_do.push_back(*next);
    }
  }
  EXPECT_EQ(reached.size(), count);
}

TEST(Life, OfWork) {
  using enum Work;
  const std::vector<Work> states{kWorks, kStopped, kOffersState, kTakesState, kStandsBy};
  expect_table(states, {{LifeEvent::kHungUp, {kStopped, kStopped, kOffersState, kTakesState, kStandsBy}},
                        {LifeEvent::kDisconnected, {kWorks, kWorks, kWorks, kWorks, kStandsBy}},
                        {LifeEvent::kReset, {kWorks, kWorks, kWorks, kWorks, kStandsBy}},
                        {LifeEvent::kStop, {kStopped, kStopped, kStopped, kStopped, kNever}},
                        {LifeEvent::kOfferState, {kNever, kOffersState, kNever, kNever, kNever}},
                        {LifeEvent::kTakeState, {kNever, kTakesState, kNever, kNever, kNever}},
                        {LifeEvent::kRun, {kWorks, kWorks, kWorks, kWorks, kNever}},
                        {LifeEvent::kStandBy, {kStandsBy, kStandsBy, kStandsBy, kStandsBy, kStandsBy}},
                        {LifeEvent::kLoaded, {kWorks, kStopped, kOffersState, kTakesState, kWorks}}});
  expect_reachable(kWorks, states.size());
}

TEST(Life, OfClient) {
  using enum ClientState;
  const std::vector<ClientState> states{kNone, kHere, kOutlivedNone, kOutlivedHere, kOutlivedGone};
  expect_table(
      states,
      {{LifeEvent::kConnected, {kHere, kNever, kOutlivedHere, kNever, kNever}},
       {LifeEvent::kHungUp, {kNever, kNever, kOutlivedNone, kOutlivedGone, kOutlivedGone}},
       {LifeEvent::kDisconnected, {kNone, kNone, kOutlivedNone, kOutlivedNone, kOutlivedNone}},
       {LifeEvent::kOutlive, {kOutlivedNone, kOutlivedHere, kOutlivedNone, kOutlivedHere, kOutlivedGone}},
       {LifeEvent::kEndWithClient, {kNone, kHere, kNone, kHere, kHere}}});
  expect_reachable(kNone, states.size());
}

TEST(Life, OfHome) {
  using enum Home;
  const std::vector<Home> states{kThisHost, kAnotherHost, kUnclaimed};
  expect_table(states, {{LifeEvent::kAwait, {kAnotherHost, kNever, kNever}},
                        {LifeEvent::kTakenBack, {kThisHost, kUnclaimed, kUnclaimed}},
                        {LifeEvent::kDisconnected, {kThisHost, kAnotherHost, kAnotherHost}},
                        {LifeEvent::kClaim, {kThisHost, kAnotherHost, kAnotherHost}},
                        {LifeEvent::kArrive, {kNever, kThisHost, kThisHost}},
                        {LifeEvent::kDepart, {kAnotherHost, kAnotherHost, kUnclaimed}}});
  expect_reachable(kThisHost, states.size());
}

TEST(Life, AnEventThatDoesNotHappenInAStateIsOurBug) {
  LifeColumn<Work> work(Work::kWorks);
  EXPECT_FALSE(work.allows(LifeEvent::kOfferState));
  EXPECT_DEATH(work.on(LifeEvent::kOfferState), "does not happen");
  work.on(LifeEvent::kStop);
  work.on(LifeEvent::kOfferState);
  EXPECT_EQ(work, Work::kOffersState);
}

}  // namespace
}  // namespace pvrdma::device
