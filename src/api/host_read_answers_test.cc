#include "api/host_read_answers.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "api/read_fixture.h"
#include "calls/call_fixture.h"

namespace pvrdma::api {
namespace {

using testing::HasSubstr;

// A router with one route, "GET /v1/stats".
std::shared_ptr<const Router> router_that(std::function<Reply(const Call&)> handler) {
  auto router = std::make_shared<Router>(Router::Membership::kCluster);
  router->add({.method = "GET",
               .path = "/v1/stats",
               .summary = "",
               .body = nullptr,
               .answer = nullptr,
               .handler = std::move(handler),
               .query = {"adapter"}});
  return router;
}

class HostReadAnswersTest : public testing::Test {
 protected:
  Reply read(const ReadWish& wish) {
    return HostReads(there_.call(), HostProof::kCertificates).read("esx-02", wish);
  }
  // Of routes that wait. The other host ends first, and a test that fails must let them go.
  ~HostReadAnswersTest() override { go_on_ = true; }
  std::unique_ptr<calls::Conversation> ask() {
    auto call = calls::call_of(there_.incoming, "esx-01");
    EXPECT_TRUE(call->say(kReadWord, ReadWish{"/v1/stats", {}}));
    return call;
  }
  static bool is_answered(calls::Conversation& call) {
    call.allow_bytes(kRelayedBytesMax);
    const auto said = call.expect(kReadAnswerWord, Instant::now() + std::chrono::seconds(20));
    EXPECT_TRUE(said || said.error().code != ETIMEDOUT) << "a call that waits until the guard";
    return said.has_value();
  }
  // esx-01's places, with `asked_`, until `go_on_` is true.
  void take_all_places(Duration place_patience) {
    answers_ = std::make_unique<HostReadAnswers>(router_that([this](const Call&) {
                                                   ++running_;
                                                   while (!go_on_) std::this_thread::yield();
                                                   return ok("{}");
                                                 }),
                                                 HostProof::kCertificates, there_.counters, place_patience);
    there_.incoming.on(kReadWord, [this](calls::IncomingCall& call, const calls::Said& first) {
      ++came_;
      answers_->answer(call, first);
    });
    while (asked_.size() < HostReadAnswers::kOfHostMax) {
      asked_.push_back(ask());
      while (running_ < asked_.size()) std::this_thread::yield();
    }
  }

  std::atomic<std::size_t> came_ = 0;  // calls
  std::atomic<std::size_t> running_ = 0;
  std::atomic<bool> go_on_ = false;
  std::vector<std::unique_ptr<calls::Conversation>> asked_;
  std::unique_ptr<HostReadAnswers> answers_;
  FakeOtherHost there_;
};

TEST_F(HostReadAnswersTest, TheCallerMayOnlyRead) {
  there_.serve(router_that([](const Call& call) {
    EXPECT_EQ(call.role, Role::kReadOnly);
    EXPECT_EQ(call.client, "host esx-01");
    EXPECT_EQ(call.method, "GET");
    EXPECT_EQ(call.parameter("adapter"), "VM-01");
    return ok("{\"host\":{}}");
  }));
  const Reply reply = read({"/v1/stats", {{"adapter", "VM-01"}}});
  EXPECT_EQ(reply.status, 200);
  EXPECT_EQ(reply.text, "{\"host\":{}}\n");
  const Reply wrong = read({"/v1/stats", {{"adaptor", "VM-01"}}});
  EXPECT_EQ(wrong.status, 400);
  EXPECT_THAT(wrong.text, HasSubstr("host esx-02: GET /v1/stats has no parameter"));
  EXPECT_EQ(there_.counters->served, 2U) << "the refusal is an answer, too";
}

TEST_F(HostReadAnswersTest, WithoutCertificatesNothingIsAnswered) {
  there_.serve(router_that([](const Call&) {
                 ADD_FAILURE() << "an answer";
                 return ok("{}");
               }),
               HostProof::kNone);
  const Reply reply = read({"/v1/stats", {}});
  EXPECT_EQ(reply.status, 409);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02 refuses: hosts prove nothing to it"));
}

TEST_F(HostReadAnswersTest, OnlyWhatIsRelayedIsAnswered) {
  FakeHost host;
  const FakeMember member;
  there_.serve(std::make_shared<const Router>(make_router(host.parts(member.plane.get()))));
  for (const char* path :
       {"/v1/watch", "/metrics", "/openapi.json", "/ui/", "/v1/hosts", "/v1/vms", "/v1/hosts/esx-03/adapters",
        "/v1/hosts/self/adapters", "/v1/hosts/esx-03/rdma/vmrdma0/stats", "/v1/adapters/VM-01/capture",
        "/v1/nothing", "", "/v1/stats/"}) {
    const Reply reply = read({path, {}});
    EXPECT_EQ(reply.status, 409) << path;
    EXPECT_THAT(reply.text, HasSubstr("host esx-02 refuses: it does not answer this read"));
  }
  EXPECT_EQ(there_.counters->served, 0U);
  EXPECT_EQ(read({"/v1/adapters/a b", {}}).status, 400);
  EXPECT_EQ(read({"/v1/adapters", {}}).status, 200);
}

TEST_F(HostReadAnswersTest, AnAnswerThatIsTooLongIsRefused) {
  there_.serve(
      router_that([](const Call&) { return ok("\"" + std::string(kRelayedBytesMax - 2, 'x') + "\""); }));
  const Reply reply = read({"/v1/stats", {}});
  EXPECT_EQ(reply.status, 409);
  EXPECT_THAT(reply.text, HasSubstr("at most 8388608 are relayed: ask for less"));
}

TEST_F(HostReadAnswersTest, AnExceptionEndsOnlyTheRead) {
  there_.serve(router_that([](const Call&) -> Reply { throw std::runtime_error("no memory"); }));
  const Reply reply = read({"/v1/stats", {}});
  EXPECT_EQ(reply.status, 500);
  EXPECT_THAT(reply.text, HasSubstr("host esx-02: the request made the API fail"));
}

TEST_F(HostReadAnswersTest, AMessageThatIsNoReadIsRefused) {
  there_.serve(router_that([](const Call&) { return ok("{}"); }));
  const auto call = calls::call_of(there_.incoming, "esx-01");
  ASSERT_TRUE(call->say(kReadWord));
  const auto said = call->expect(kReadAnswerWord, Instant::now() + std::chrono::seconds(20));
  ASSERT_FALSE(said);
  EXPECT_EQ(said.error().message, "the read lacks \"path\"");
}

TEST_F(HostReadAnswersTest, FewAreAnsweredAtOnce) {
  take_all_places(std::chrono::milliseconds(1));
  const Reply reply = read({"/v1/stats", {}});
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.text,
              HasSubstr("host esx-02 gives up: it answers too many reads already, at most 3 of one host"));
  go_on_ = true;
  for (const auto& call : asked_) EXPECT_TRUE(is_answered(*call));
}

TEST_F(HostReadAnswersTest, ACallWaitsForAPlace) {
  take_all_places(std::chrono::seconds(100));
  const auto waits = ask();
  go_on_ = true;
  EXPECT_TRUE(is_answered(*waits));
}

TEST_F(HostReadAnswersTest, AStopEndsTheWait) {
  take_all_places(std::chrono::seconds(100));
  const auto waits = ask();
  while (came_ <= HostReadAnswers::kOfHostMax) std::this_thread::yield();
  there_.incoming.interrupt();
  EXPECT_FALSE(is_answered(*waits)) << "the others are still being answered";
  EXPECT_EQ(running_, HostReadAnswers::kOfHostMax);
}

}  // namespace
}  // namespace pvrdma::api
