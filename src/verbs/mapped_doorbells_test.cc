// Work requests whose doorbells were overwritten by other doorbells of the same context.
#include <gtest/gtest.h>
#include <utility>
#include <vector>

#include "verbs/completion_watch.h"
#include "verbs/engine_fixture.h"

namespace pvrdma::verbs {
namespace {

constexpr Rules kMapped{.mapped_doorbells = true};
constexpr QpHandle kStale{31'000};  // a handle that no QP has

// A process in the guest of `adapter`, in the context that new objects belong to.
struct Process {
  explicit Process(TestAdapter& of) : adapter(of), cq(of.make_cq()), mr(of.make_mr(4096)) {}

  std::vector<TestQp> connected(std::uint32_t count) {
    const QpOptions small{.max_send_wr = 4, .max_recv_wr = 4, .max_send_sge = 1, .max_recv_sge = 1};
    std::vector<TestQp> qps;
    for (std::uint32_t i = 0; i < count; ++i) {
      qps.push_back(adapter.make_qp(cq, cq, small));
      adapter.connect(qps.back(), {test_gid(2), Qpn(100 + i)});
    }
    return qps;
  }
  void post(TestQp& qp) { adapter.post(qp, {.sges = {mr.sge(0, 8)}}); }

  TestAdapter& adapter;
  TestCq cq;
  TestMr mr;
};

// The peer records the messages that it gets.
class MappedDoorbellsTest : public testing::Test {
 protected:
  std::vector<TestQp> connected(std::uint32_t count) { return process.connected(count); }
  void post(TestQp& qp) { process.post(qp); }
  // The adapter finds the QP's doorbell word.
  void ring(const TestQp& qp) {
    a.ring(qp);
    a.engine.qp_word_found(a.uar, qp.handle);
  }
  std::size_t sent() const { return a.wire.requests.size(); }

  TestAdapter a{1, 1, kMapped, 128u << 20};
  Process process{a};
};

TEST_F(MappedDoorbellsTest, ADoorbellThatAnotherHidIsFound) {
  auto qps = connected(3);
  post(qps[0]);
  post(qps[1]);
  ring(qps[1]);
  EXPECT_EQ(sent(), 1u);
  EXPECT_EQ(a.engine.next_deadline(), Instant{});
  a.settle();
  EXPECT_EQ(sent(), 2u);
  EXPECT_EQ(a.engine.counters().hidden_doorbells, 1u);
}

TEST_F(MappedDoorbellsTest, AWordOfAQpThatIsGoneMayHideOthersToo) {
  auto qps = connected(1);
  post(qps[0]);
  a.engine.send_doorbell(a.uar, kStale, a.now);
  a.engine.qp_word_found(a.uar, kStale);
  a.settle();
  EXPECT_EQ(sent(), 1u);
}

TEST_F(MappedDoorbellsTest, TheOnlyQpOfAContextHidesNobody) {
  auto qps = connected(1);
  post(qps[0]);
  ring(qps[0]);
  EXPECT_FALSE(a.engine.run(a.now));
  EXPECT_EQ(sent(), 1u);
}

TEST_F(MappedDoorbellsTest, AQpThatIsFlushedIsLookedAtToo) {
  auto qps = connected(2);
  ASSERT_TRUE(a.to_state(qps[0], abi::QpState::kErr));
  TestAdapter::post_receive(qps[0].receives, {.wr_id = 9, .sges = {process.mr.sge(0, 8)}});
  ring(qps[1]);
  a.settle();
  EXPECT_THAT(a.poll(process.cq), testing::ElementsAre(Completion{9, abi::CompletionStatus::kFlushed}));
}

TEST_F(MappedDoorbellsTest, ATurnLooksAtAFewOfManyQps) {
  constexpr std::uint32_t kQps = 200;
  auto qps = connected(kQps);
  for (TestQp& qp : qps) post(qp);
  ring(qps[0]);
  EXPECT_TRUE(a.engine.run(a.now));
  EXPECT_LE(sent(), 1u + 64);
  a.settle();
  EXPECT_EQ(sent(), kQps);
}

TEST_F(MappedDoorbellsTest, ContextsAreLookedAtInTurn) {
  constexpr UarIndex kOther = 2;
  auto many = connected(190);
  ASSERT_TRUE(a.engine.create_context(kOther));
  const UarIndex first = std::exchange(a.uar, kOther);
  a.pd = *a.engine.create_pd(ContextHandle(kOther));
  Process other(a);
  auto few = other.connected(2);
  other.post(few[0]);
  a.engine.qp_word_found(first, kStale);
  a.engine.qp_word_found(kOther, kStale);
  static_cast<void>(a.engine.run(a.now));
  EXPECT_EQ(sent(), 1u);
}

TEST_F(MappedDoorbellsTest, WhatWasPostedBeforeACommandIsExecutedBeforeIt) {
  auto qps = connected(2);
  post(qps[0]);
  ASSERT_TRUE(a.to_state(qps[0], abi::QpState::kErr));
  EXPECT_EQ(sent(), 1u);
  post(qps[1]);
  ASSERT_TRUE(a.engine.destroy_qp(qps[1].handle, a.now));
  EXPECT_EQ(sent(), 2u);
}

TEST_F(MappedDoorbellsTest, TrappedDoorbellsHideNobody) {
  TestAdapter trapped(3);
  Process of_trapped(trapped);
  auto qps = of_trapped.connected(2);
  for (TestQp& qp : qps) of_trapped.post(qp);
  trapped.engine.qp_word_found(trapped.uar, kStale);
  trapped.engine.cq_word_found(trapped.uar, of_trapped.cq.handle, 0);
  EXPECT_FALSE(trapped.engine.run(trapped.now));
  ASSERT_TRUE(trapped.to_state(qps[0], abi::QpState::kErr));
  EXPECT_TRUE(trapped.wire.requests.empty()) << "its doorbell had not come";
}

TEST_F(MappedDoorbellsTest, QpsThatGoAreNotLookedAt) {
  auto qps = connected(4);
  a.engine.qp_word_found(a.uar, kStale);
  ASSERT_TRUE(a.engine.destroy_qp(qps[1].handle, a.now));
  ASSERT_TRUE(a.engine.destroy_context(ContextHandle(a.uar)));
  a.settle();
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  ASSERT_TRUE(a.engine.create_context(a.uar));
  a.engine.qp_word_found(a.uar, kStale);
  EXPECT_FALSE(a.engine.run(a.now));
  a.engine.reset();
  a.settle();
}

// The engine's deadline covers the deadlines of its CQs.
TEST_F(MappedDoorbellsTest, AGuestWhoseArmWasHiddenIsToldOfItsCompletion) {
  TestAdapter b{2, 1, kMapped};
  a.wire.peer = &b.engine;
  b.wire.peer = &a.engine;
  const TestCq peer_cq = b.make_cq();
  const TestMr peer_mr = b.make_mr(4096);
  TestQp from = a.make_qp(process.cq, process.cq);
  const TestQp to = b.make_qp(peer_cq, peer_cq);
  a.connect(from, b.endpoint(to), {.sq_psn = 1, .rq_psn = 1});
  b.connect(to, a.endpoint(from), {.sq_psn = 1, .rq_psn = 1});
  a.engine.cq_word_found(a.uar, process.cq.handle, a.engine.begin_look());
  a.send(from, {.sges = {process.mr.sge(0, 8)}, .remote_addr = peer_mr.start, .rkey = peer_mr.key});
  a.settle();
  b.settle();
  a.advance(CompletionWatch::kPatienceMin - std::chrono::nanoseconds(1));
  EXPECT_TRUE(a.events.completions.empty());
  a.advance(std::chrono::nanoseconds(1));
  EXPECT_THAT(a.events.completions, testing::ElementsAre(process.cq.handle));
}

}  // namespace
}  // namespace pvrdma::verbs
