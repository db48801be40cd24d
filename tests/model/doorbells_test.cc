// No wake-up and no work is lost, in every interleaving of small cases. And each rule of the daemon is
// needed: without it, one of the same cases ends badly.
#include "doorbells.h"

#include <iostream>
#include <utility>

#include "gtest/gtest.h"

namespace pvrdma::model {
namespace {

Exploration explore_case(Doorbells& doorbells) {
  const Exploration found = explore(doorbells);
  std::cout << found.states << " states, " << found.ends << " of them ends\n";
  return found;
}

std::string story(const Exploration& found) {
  std::string text = found.wrong;
  for (const std::string& step : found.trace) text += "\n  " + step;
  return text;
}

// --- The protocol ---

class EachConsumer : public testing::TestWithParam<Consumer> {
 protected:
  Seen holds(Bounds bounds) {
    bounds.consumer = GetParam();
    Doorbells doorbells(bounds);
    const Exploration found = explore_case(doorbells);
    EXPECT_EQ(found.wrong, "") << story(found);
    EXPECT_GT(found.ends, 0u);
    EXPECT_EQ(doorbells.seen().dropped_event, GetParam() == Consumer::kKernelPolled);
    return doorbells.seen();
  }
};

INSTANTIATE_TEST_SUITE_P(Model, EachConsumer,
                         testing::Values(Consumer::kPollArmPoll, Consumer::kArmPoll, Consumer::kKernelPolled),
                         [](const auto& each) {
                           switch (each.param) {
                             case Consumer::kPollArmPoll:
                               return "poll_arm_poll";
                             case Consumer::kArmPoll:
                               return "arm_poll";
                             case Consumer::kKernelPolled:
                               return "kernel_polled";
                           }
                           return "";
                         });

TEST_P(EachConsumer, alone_needs_only_exact_arms) {
  const Seen seen = holds({.sleepers = 1, .messages = {3}});
  EXPECT_TRUE(seen.fired_at_push && seen.fired_at_late_arm);
}

TEST_P(EachConsumer, hides_its_own_arm_behind_poll) {
  const Seen seen = holds({.sleepers = 1, .polls_write = true, .messages = {3}});
  EXPECT_TRUE(seen.fired_at_push && seen.fired_at_late_arm && seen.fired_maybe && seen.waited_again);
}

TEST_P(EachConsumer, hides_its_arm_behind_anothers) {
  const Seen seen = holds({.sleepers = 2, .messages = {2, 1}});
  EXPECT_TRUE(seen.fired_at_push && seen.fired_at_late_arm && seen.fired_maybe && seen.fired_needlessly &&
              seen.waited_again);
}

TEST_P(EachConsumer, hides_its_arm_behind_anothers_poll) {
  const Seen seen = holds({.sleepers = 2, .polls_write = true, .messages = {2, 0}});
  EXPECT_TRUE(seen.fired_maybe && seen.fired_needlessly);
}

TEST_P(EachConsumer, is_one_of_three) {
  const Seen seen = holds({.sleepers = 3, .messages = {2, 0, 0}});
  EXPECT_TRUE(seen.fired_maybe && seen.waited_again);
}

TEST_P(EachConsumer, sleeps_on_the_completions_of_hidden_posts) {
  const Seen seen = holds({.sleepers = 1, .posts = {{{0, 1}, {0}}}, .cq_of = {0, 0}});
  EXPECT_TRUE(seen.found_hidden_work && seen.fired_at_push && seen.fired_at_late_arm);
}

TEST_P(EachConsumer, sleeps_on_messages_for_hidden_receives) {
  const Seen seen = holds(
      {.sleepers = 1, .posts = {{{receives(0), receives(1), 0}, {}}}, .arriving = {1, 1}, .cq_of = {0, 0}});
  EXPECT_TRUE(seen.found_hidden_work && seen.fired_at_push && seen.fired_at_late_arm);
}

TEST_P(EachConsumer, sleeps_on_its_only_qp) {
  const Seen seen =
      holds({.sleepers = 1, .posts = {{{0, receives(0), 0}, {}}}, .qps = 1, .arriving = {1}, .cq_of = {0}});
  EXPECT_TRUE(seen.found_send_behind_receive && seen.fired_at_push && seen.fired_at_late_arm);
}

Seen nothing_goes_wrong(const Bounds& bounds) {
  Doorbells doorbells(bounds);
  const Exploration found = explore_case(doorbells);
  EXPECT_EQ(found.wrong, "") << story(found);
  EXPECT_GT(found.ends, 0u);
  return doorbells.seen();
}

TEST(CountingConsumer, takes_a_completion_before_its_event) {
  const Seen seen = nothing_goes_wrong(
      {.sleepers = 1, .consumer = Consumer::kArmPoll, .polls_write = true, .messages = {3}});
  EXPECT_TRUE(seen.fired_taken && seen.fired_taken_at_late_arm && seen.waited_again);
}

TEST(CountingConsumer, has_two_cqs_on_one_channel) {
  const Seen seen = nothing_goes_wrong({.sleepers = 2,
                                        .consumer = Consumer::kArmPoll,
                                        .polls_write = true,
                                        .one_channel = true,
                                        .messages = {1, 1}});
  EXPECT_TRUE(seen.fired_taken && seen.waited_again);
}

TEST(HiddenPosts, of_one_thread_are_executed) {
  EXPECT_TRUE(nothing_goes_wrong({.sleepers = 0, .posts = {{{0, 1, 0, 1}, {}}}}).found_hidden_work);
}

TEST(HiddenPosts, of_two_threads_are_executed) {
  EXPECT_TRUE(nothing_goes_wrong({.sleepers = 0, .posts = {{{0, 1}, {1, 0}}}}).found_hidden_work);
}

TEST(HiddenPosts, behind_receives_are_executed) {
  const Seen seen =
      nothing_goes_wrong({.sleepers = 0, .posts = {{{0, receives(0), 1}, {receives(1), 1, 0}}}});
  EXPECT_TRUE(seen.found_hidden_work && seen.found_send_behind_receive);
}

TEST(HiddenPosts, to_qps_that_fail_are_flushed) {
  const Seen seen = nothing_goes_wrong(
      {.sleepers = 0, .posts = {{{receives(0), 0, 1}, {receives(1), receives(0)}}}, .failing = {true, true}});
  EXPECT_TRUE(seen.found_hidden_work && seen.found_hidden_flush);
}

TEST(HiddenReceives, take_messages) {
  nothing_goes_wrong({.sleepers = 0,
                      .posts = {{{receives(0), receives(1), 0}, {receives(1), 1, receives(0)}}},
                      .arriving = {2, 2}});
}

TEST(HiddenReceives, of_srqs_take_messages) {
  nothing_goes_wrong(
      {.sleepers = 0,
       .posts = {{{shared_receives(0), 0, shared_receives(1)}, {shared_receives(1), shared_receives(0)}}},
       .arriving = {2, 2},
       .srq_of = {0, 1}});
}

TEST(HiddenReceives, of_one_srq_take_messages_of_all_its_qps) {
  nothing_goes_wrong({.sleepers = 0,
                      .posts = {{{shared_receives(0), 0, shared_receives(0)}, {1, shared_receives(0)}}},
                      .arriving = {2, 1},
                      .failing = {false, true},
                      .srq_of = {0, 0}});
}

// --- Each rule is needed ---

constexpr const char* kSleepsOn = "a guest sleeps on a completion";
constexpr const char* kNeverFires = "an armed CQ never fires";
constexpr const char* kNeverExecuted = "posted work is never executed";
constexpr const char* kWaitsOn = "a message waits for a receive that is there";

struct Mutant {
  const char* name;
  Bounds bounds;
  const char* wrong;
};

// One thread posts to `rings`, one after the other, and there are no sleepers.
Bounds posts(std::vector<std::uint8_t> rings, Bounds rest) {
  rest.sleepers = 0;
  rest.posts[0] = std::move(rings);
  return rest;
}

class EachRule : public testing::TestWithParam<Mutant> {};

INSTANTIATE_TEST_SUITE_P(
    Model, EachRule,
    testing::Values(
        Mutant{"maybe_armed",
               {.sleepers = 2, .messages = {2, 0}, .mutation = Mutation::kNoMaybeRule},
               kSleepsOn},
        // Only a QP's doorbell shows this. An ARM that the late 0 erases was written before the next event,
        // and that event satisfies it, because raising it is a locked operation.
        Mutant{"words_are_taken_by_an_exchange", posts({0, 1}, {.mutation = Mutation::kLoadAndStore}),
               kNeverExecuted},
        Mutant{"a_late_arm_needs_its_event",
               {.sleepers = 1,
                .consumer = Consumer::kArmPoll,
                .messages = {2},
                .mutation = Mutation::kLateArmOwesNothing},
               kNeverFires},
        Mutant{"a_taken_completion_needs_its_event",
               {.sleepers = 1,
                .consumer = Consumer::kArmPoll,
                .polls_write = true,
                .messages = {2},
                .mutation = Mutation::kTakenNeedsNoEvent},
               kNeverFires},
        Mutant{"a_taken_completion_needs_its_event_on_a_shared_channel",
               {.sleepers = 2,
                .consumer = Consumer::kArmPoll,
                .one_channel = true,
                .messages = {1, 1},
                .mutation = Mutation::kTakenNeedsNoEvent},
               kNeverFires},
        Mutant{"who_moved_is_waited_for_again",
               {.sleepers = 1, .polls_write = true, .messages = {2}, .mutation = Mutation::kGivesUpWhenMoved},
               kSleepsOn},
        Mutant{"who_was_named_is_waited_for_again",
               {.sleepers = 1, .polls_write = true, .messages = {2}, .mutation = Mutation::kGivesUpWhenNamed},
               kSleepsOn},
        Mutant{"looks_never_stop_for_arms",
               {.sleepers = 1, .messages = {2}, .mutation = Mutation::kStopsAfterEmptyLook},
               kSleepsOn},
        Mutant{"looks_never_stop_for_posts", posts({0, 1}, {.mutation = Mutation::kStopsAfterEmptyLook}),
               kNeverExecuted},
        Mutant{"other_qps_are_scanned", posts({0, 1}, {.mutation = Mutation::kNoScan}), kNeverExecuted},
        // With one QP, because the rings of a context's other QPs are scanned anyhow.
        Mutant{"a_receives_word_runs_the_sends",
               posts({0, receives(0)}, {.qps = 1, .mutation = Mutation::kReceiveWordRunsNoSend}),
               kNeverExecuted},
        Mutant{"a_sends_word_flushes_the_receives",
               posts({receives(0), 0},
                     {.qps = 1, .failing = {true}, .mutation = Mutation::kSendWordFlushesSends}),
               kNeverExecuted},
        Mutant{"failed_qps_are_scanned",
               posts({receives(0), 1}, {.failing = {true, false}, .mutation = Mutation::kScanSkipsFailed}),
               kNeverExecuted},
        Mutant{"messages_look_for_receives",
               posts({receives(0), receives(1)},
                     {.arriving = {1, 1}, .mutation = Mutation::kReceivesByTheirWords}),
               kWaitsOn},
        Mutant{
            "messages_look_for_receives_behind_sends",
            posts({receives(0), 0}, {.qps = 1, .arriving = {1}, .mutation = Mutation::kReceivesByTheirWords}),
            kWaitsOn},
        Mutant{"messages_look_for_receives_of_srqs",
               posts({shared_receives(0), shared_receives(1)},
                     {.arriving = {1, 1}, .srq_of = {0, 1}, .mutation = Mutation::kReceivesByTheirWords}),
               kWaitsOn},
        Mutant{"firing_clears_only_what_was_taken",
               {.sleepers = 2, .messages = {2, 0}, .mutation = Mutation::kFiringClearsNextEpoch},
               kSleepsOn},
        Mutant{
            "poll_words_begin_an_epoch",
            {.sleepers = 1, .polls_write = true, .messages = {2}, .mutation = Mutation::kPollWordsAreNoNews},
            kSleepsOn},
        Mutant{"firing_clears_maybe_armed",
               {.sleepers = 2, .messages = {2, 0}, .mutation = Mutation::kFiringKeepsMaybe},
               "two needless events in one epoch"}),
    [](const auto& each) { return each.param.name; });

TEST_P(EachRule, is_missed) {
  Doorbells broken(GetParam().bounds);
  const Exploration found = explore_case(broken);
  EXPECT_EQ(found.wrong, GetParam().wrong);
  EXPECT_FALSE(found.trace.empty());

  Bounds right = GetParam().bounds;
  right.mutation = Mutation::kNone;
  Doorbells whole(right);
  const Exploration well = explore_case(whole);
  EXPECT_EQ(well.wrong, "") << story(well);
}

}  // namespace
}  // namespace pvrdma::model
