#include "calls/incoming_calls.h"

#include <atomic>
#include <chrono>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "calls/call_fixture.h"

namespace pvrdma::calls {
namespace {

using std::chrono::seconds;

Instant patience() {
  return Instant::now() + seconds(20);
}

// Answers with the caller's name and the word that selected the answer.
void answer_to(IncomingCalls& calls, const std::string& word) {
  calls.on(word, [word](IncomingCall& call, const Said&) {
    EXPECT_TRUE(call.there().say(word + " of " + call.peer()));
  });
}

TEST(IncomingCallsTest, TheFirstWordChoosesTheAnswer) {
  IncomingCalls calls;
  answer_to(calls, "offer");
  answer_to(calls, "memory");
  for (const std::string word : {"memory", "offer"}) {
    const auto there = call_of(calls, "esx-01");
    ASSERT_TRUE(there->say(word));
    EXPECT_TRUE(there->expect((word + " of esx-01").c_str(), patience()));
  }
}

TEST(IncomingCallsTest, ACallWithAnotherFirstWordIsEnded) {
  IncomingCalls calls;
  answer_to(calls, "offer");
  const auto there = call_of(calls, "esx-01");
  ASSERT_TRUE(there->say("loaded"));
  EXPECT_FALSE(there->listen(patience()));
}

TEST(IncomingCallsTest, OneHostTakesOnlyItsShare) {
  std::atomic<std::size_t> begun = 0;
  IncomingCalls calls;
  answer_to(calls, "offer");
  calls.on("long", [&](IncomingCall& call, const Said&) {
    ++begun;
    EXPECT_FALSE(call.there().listen(patience() + seconds(100))) << "until the caller has left";
  });
  std::vector<std::unique_ptr<Conversation>> long_ones;
  while (long_ones.size() < IncomingCalls::kAnsweredOfHostMax - 1) {
    long_ones.push_back(call_of(calls, "esx-01"));
    ASSERT_TRUE(long_ones.back()->say("long"));
    while (begun < long_ones.size()) std::this_thread::yield();
  }
  long_ones.push_back(call_of(calls, "esx-01"));  // one that says nothing has a place, too
  const auto over = call_of(calls, "esx-01");
  EXPECT_FALSE(over->listen(patience()));
  const auto other = call_of(calls, "esx-03");
  ASSERT_TRUE(other->say("offer"));
  EXPECT_TRUE(other->expect("offer of esx-03", patience())) << "another host is heard";
  long_ones.clear();
  const auto is_heard = [&] {
    const auto again = call_of(calls, "esx-01");
    return again->say("offer") && again->expect("offer of esx-01", patience());
  };
  const Instant until = patience();
  while (!is_heard()) ASSERT_LT(Instant::now(), until) << "the long ones have left their places";
}

TEST(IncomingCallsTest, AnInterruptEndsWhatAnAnswerWaitsFor) {
  IncomingCalls calls;
  std::atomic<bool> has_begun = false;
  std::atomic<bool> was_stopped = false;
  calls.on("offer", [&](IncomingCall& call, const Said&) {
    has_begun = true;
    EXPECT_FALSE(call.there().listen(patience() + seconds(100)));
    was_stopped = call.stop().stop_requested();
  });
  const auto silent = call_of(calls, "esx-01");
  const auto there = call_of(calls, "esx-01");
  ASSERT_TRUE(there->say("offer"));
  while (!has_begun) std::this_thread::yield();
  calls.stop();
  EXPECT_TRUE(was_stopped);
  const auto late = call_of(calls, "esx-01");
  EXPECT_FALSE(late->listen(patience())) << "no other call is taken";
}

TEST(IncomingCallsTest, AChannelThatIsGivenAwayOutlivesItsCall) {
  std::unique_ptr<ByteChannel> given;
  std::atomic<bool> is_given = false;
  IncomingCalls calls;
  calls.on("memory", [&](IncomingCall& call, const Said&) {
    EXPECT_TRUE(call.there().say("send"));
    given = call.give_channel();
    is_given = true;
  });
  const auto there = call_of(calls, "esx-01");
  ASSERT_TRUE(there->say("memory"));
  ASSERT_TRUE(there->expect("send", patience()));
  while (!is_given) std::this_thread::yield();
  calls.stop();
  const auto bytes = there->give_channel();
  const std::vector<std::byte> sent(100, std::byte{7});
  ASSERT_TRUE(bytes->send(sent, patience()));
  std::vector<std::byte> received(200);
  const auto got = given->receive(received, patience());
  ASSERT_TRUE(got) << got.error().message;
  EXPECT_EQ(*got, sent.size());
}

}  // namespace
}  // namespace pvrdma::calls
