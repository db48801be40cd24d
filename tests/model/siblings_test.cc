// The rings between shards: no wake-up is lost, nothing is read after its loan, and nobody waits for ever, in
// every interleaving of small cases. And each rule is needed: without it, one of the same cases ends badly.
#include <iostream>
#include <string>

#include "gtest/gtest.h"

#include "siblings_revoke.h"
#include "siblings_rings.h"
#include "siblings_sleep.h"

namespace pvrdma::model {
namespace {

std::string story(const Exploration& found) {
  std::string text = found.wrong;
  for (const std::string& step : found.trace) text += "\n  " + step;
  return text;
}

template <typename Model>
Exploration explore_case(Model& model) {
  Exploration found = explore(model);
  std::cout << found.states << " states, " << found.ends << " of them ends\n";
  return found;
}

// --- Sleeping, and waiting for room ---

constexpr const char* kSleepsOnMessage = "the reader sleeps on a message";
constexpr const char* kWaitsForNothing = "the writer waits for room that is there";

TEST(SiblingsSleep, no_wake_up_is_lost) {
  SiblingsSleep model(SleepMutation::kNone);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, "") << story(found);
  EXPECT_TRUE(model.seen().reader_was_woken && model.seen().writer_was_woken);
}

struct SleepMutant {
  const char* name;
  SleepMutation mutation;
  const char* wrong;
};

class EachSleepRule : public testing::TestWithParam<SleepMutant> {};

INSTANTIATE_TEST_SUITE_P(
    Model, EachSleepRule,
    testing::Values(
        SleepMutant{"a_fence_before_the_bell", SleepMutation::kNoFenceBeforeBell, kSleepsOnMessage},
        SleepMutant{"a_fence_when_lying_down", SleepMutation::kNoFenceInLieDown, kSleepsOnMessage},
        SleepMutant{"a_second_look", SleepMutation::kNoSecondLook, kSleepsOnMessage},
        SleepMutant{"a_second_look_for_room", SleepMutation::kNoLookAtRoom, kWaitsForNothing},
        SleepMutant{"a_fence_after_the_head", SleepMutation::kNoFenceAfterHead, kWaitsForNothing},
        SleepMutant{"the_last_head_before_sleeping", SleepMutation::kKeepsTheLastHead, kWaitsForNothing},
        SleepMutant{"who_gets_up_empties_the_bell", SleepMutation::kReadsTheBellIfRung,
                    "a bell wakes more often than it was rung"},
        SleepMutant{"news_are_flushed", SleepMutation::kRestoredRingsNobody,
                    "the reader sleeps on the news that answers were revoked"},
        SleepMutant{"only_the_writer_ends_its_wait", SleepMutation::kReaderForgetsTheWait, kWaitsForNothing}),
    [](const auto& each) { return each.param.name; });

TEST_P(EachSleepRule, is_missed) {
  SiblingsSleep model(GetParam().mutation);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, GetParam().wrong) << story(found);
  EXPECT_FALSE(found.trace.empty());
}

// --- Requests and answers ---

TEST(SiblingsRings, an_answer_never_waits_behind_a_request) {
  SiblingsRings model(Rings::kTwoForEachWay);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, "") << story(found);
  EXPECT_EQ(found.ends, 1U);
}

TEST(SiblingsRings, one_ring_for_both_is_too_few) {
  SiblingsRings model(Rings::kOneForEachWay);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, "two shards wait for room in each other's ring") << story(found);
}

// --- Loans, repetitions and stops ---

constexpr const char* kReadTooLate = "memory is read when its loan has ended";
constexpr const char* kGap = "an honest reader sees a gap";

SiblingsRevoke::Seen nothing_goes_wrong(const RevokeBounds& bounds) {
  SiblingsRevoke model(bounds);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, "") << story(found);
  EXPECT_GT(found.ends, 0U);
  return model.seen();
}

TEST(SiblingsRevoke, of_two_lent_messages) {
  const auto seen = nothing_goes_wrong({});
  EXPECT_TRUE(seen.revoked_lent && seen.waited_for_copy && seen.lost_at_the_exchange);
}

TEST(SiblingsRevoke, of_a_small_and_a_lent_message) {
  EXPECT_TRUE(nothing_goes_wrong({.lent = {false, true}}).revoked_lent);
  EXPECT_TRUE(nothing_goes_wrong({.lent = {true, false}}).revoked_lent);
}

TEST(SiblingsRevoke, from_a_hostile_reader) {
  const auto seen = nothing_goes_wrong({.resets = 1, .lies = 1});
  EXPECT_TRUE(seen.revoked_lent && seen.waited_for_copy && seen.executed_by_a_reset_qp);
}

struct RevokeMutant {
  const char* name;
  RevokeBounds bounds;
  const char* wrong;
};

class EachRevokeRule : public testing::TestWithParam<RevokeMutant> {};

INSTANTIATE_TEST_SUITE_P(
    Model, EachRevokeRule,
    testing::Values(
        RevokeMutant{"newest_first", {.mutation = RevokeMutation::kOldestFirst}, kGap},
        RevokeMutant{"done_after_the_copy", {.mutation = RevokeMutation::kDoneBeforeTheCopy}, kReadTooLate},
        RevokeMutant{
            "a_stop_waits_for_the_copy", {.mutation = RevokeMutation::kStopWaitsForNoCopy}, kReadTooLate},
        RevokeMutant{"each_message_may_begin_a_repetition",
                     {.lent = {false, true}, .mutation = RevokeMutation::kRepetitionAtLentOnly},
                     kGap},
        RevokeMutant{"no_room_before_the_news", {.mutation = RevokeMutation::kRoomBeforeNews}, kGap},
        RevokeMutant{"what_is_revoked_is_announced", {.mutation = RevokeMutation::kNoNews}, kGap},
        RevokeMutant{"an_answer_revokes_what_is_still_offered",
                     {.resets = 1, .mutation = RevokeMutation::kAnswersRevokeNothing},
                     kReadTooLate},
        RevokeMutant{"an_answer_that_lies_revokes_it_too",
                     {.repeats = 0, .lies = 1, .mutation = RevokeMutation::kAnswersRevokeNothing},
                     kReadTooLate},
        // A repetition may be sent after the reset, before the writer has the answer.
        RevokeMutant{"dropping_at_a_reset_is_not_enough",
                     {.resets = 1, .mutation = RevokeMutation::kDropsWhenReset},
                     kReadTooLate}),
    [](const auto& each) { return each.param.name; });

TEST_P(EachRevokeRule, is_missed) {
  SiblingsRevoke model(GetParam().bounds);
  const Exploration found = explore_case(model);
  EXPECT_EQ(found.wrong, GetParam().wrong) << story(found);
  EXPECT_FALSE(found.trace.empty());
}

}  // namespace
}  // namespace pvrdma::model
