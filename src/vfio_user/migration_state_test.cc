// For every pair of states: the way between them, and the result of a failure on it.
#include "vfio_user/migration_state.h"

#include <cerrno>
#include <vector>

#include "gtest/gtest.h"

namespace pvrdma::vfio_user {
namespace {

using enum MigrationState;
using Way = std::vector<MigrationState>;

struct Row {
  MigrationState from;
  MigrationState to;
  Way way;  // empty: there is no way
};

const Row kRows[] = {
    {kRunning, kStop, {kStop}},
    {kRunning, kStopCopy, {kStop, kStopCopy}},
    {kRunning, kResuming, {kStop, kResuming}},
    {kRunning, kPreCopy, {kPreCopy}},
    {kStop, kRunning, {kRunning}},
    {kStop, kStopCopy, {kStopCopy}},
    {kStop, kResuming, {kResuming}},
    {kStop, kPreCopy, {kRunning, kPreCopy}},
    {kStopCopy, kRunning, {kStop, kRunning}},
    {kStopCopy, kStop, {kStop}},
    {kStopCopy, kResuming, {kStop, kResuming}},
    {kStopCopy, kPreCopy, {}},
    {kResuming, kRunning, {kStop, kRunning}},
    {kResuming, kStop, {kStop}},
    {kResuming, kStopCopy, {kStop, kStopCopy}},
    {kResuming, kPreCopy, {kStop, kRunning, kPreCopy}},
    {kPreCopy, kRunning, {kRunning}},
    {kPreCopy, kStop, {kRunning, kStop}},
    {kPreCopy, kStopCopy, {kStopCopy}},
    {kPreCopy, kResuming, {kRunning, kStop, kResuming}},
};

StateChange succeed(MigrationState) {
  return {};
}

MigrationStates in(MigrationState state) {
  MigrationStates states;
  EXPECT_EQ(states.change(state, true, succeed), 0);
  EXPECT_EQ(states.current(), state);
  return states;
}

TEST(MigrationStates, EveryWay) {
  for (const Row& row : kRows) {
    MigrationStates states = in(row.from);
    Way way;
    const int result = states.change(row.to, true, [&](MigrationState next) {
      way.push_back(next);
      return StateChange{};
    });
    EXPECT_EQ(way, row.way);
    EXPECT_EQ(result, row.way.empty() ? EINVAL : 0);
    EXPECT_EQ(states.current(), row.way.empty() ? row.from : row.to);
  }
}

TEST(MigrationStates, WhereItIsAlreadyNothingIsAsked) {
  for (const MigrationState state : {kRunning, kStop, kStopCopy, kResuming, kPreCopy}) {
    MigrationStates states = in(state);
    EXPECT_EQ(states.change(state, true, [](MigrationState) { return StateChange{EIO}; }), 0);
  }
}

TEST(MigrationStates, AFailureStaysWhereItGotToOrIsLost) {
  for (const Row& row : kRows) {
    for (std::size_t failing = 0; failing < row.way.size(); ++failing) {
      for (const bool lost : {false, true}) {
        MigrationStates states = in(row.from);
        std::size_t arcs = 0;
        EXPECT_EQ(states.change(row.to, true,
                                [&](MigrationState) {
                                  return arcs++ == failing ? StateChange{ENOMEM, lost} : StateChange{};
                                }),
                  ENOMEM);
        EXPECT_EQ(arcs, failing + 1);
        EXPECT_EQ(states.current(), lost ? kError : failing == 0 ? row.from : row.way[failing - 1]);
      }
    }
  }
}

TEST(MigrationStates, OnlyAResetLeavesErrorAndNobodyAsksForIt) {
  for (const MigrationState state : {kRunning, kStop, kStopCopy, kResuming, kPreCopy}) {
    MigrationStates states = in(state);
    EXPECT_EQ(states.change(kError, true, succeed), EINVAL);
    EXPECT_EQ(states.current(), state);
  }
  MigrationStates states;
  EXPECT_EQ(states.change(kStop, true, [](MigrationState) { return StateChange{EIO, true}; }), EIO);
  for (const MigrationState state : {kRunning, kStop, kStopCopy, kResuming, kPreCopy, kError})
    EXPECT_EQ(states.change(state, true, succeed), EINVAL);
  states.reset();
  EXPECT_EQ(states.current(), kRunning);
  EXPECT_EQ(states.change(kStop, true, succeed), 0);
}

TEST(MigrationStates, WithoutPreCopyItsArcsAreNotThere) {
  for (const MigrationState state : {kRunning, kStop, kStopCopy, kResuming}) {
    MigrationStates states = in(state);
    EXPECT_EQ(states.change(kPreCopy, false, succeed), EINVAL);
    EXPECT_EQ(states.current(), state);
  }
}

}  // namespace
}  // namespace pvrdma::vfio_user
