// One command destroys many objects. From then on the guest and its peers cannot use them. Their memory is
// given back in slices.
#include "verbs/connected_qp_fixture.h"

namespace pvrdma::verbs {
namespace {

using ::testing::IsEmpty;

constexpr std::uint32_t kMany = 500;

class Teardown : public ::testing::Test {
 protected:
  void create(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      ASSERT_TRUE(a.engine.create_mr(mr_request()));
      ASSERT_TRUE(a.engine.create_qp(qp_request()));
    }
  }
  CreateMr mr_request() const {
    return {.kind = MrKind::kUser,
            .pd = a.pd,
            .start = 0x10'0000,
            .length = 4096,
            .access_flags = abi::kAccessLocalWrite,
            .page_count = 1,
            .page_directory = page.directory};
  }
  CreateQp qp_request() const {
    return {.pd = a.pd,
            .send_cq = cq,
            .recv_cq = cq,
            .type = abi::QpType::kRc,
            .max_send_wr = 4,
            .max_recv_wr = 4,
            .max_send_sge = 1,
            .max_recv_sge = 1,
            .total_pages = 3,
            .send_pages = 1,
            .page_directory = pages.directory};
  }
  void make_context_anew() {
    ASSERT_TRUE(a.engine.create_context(a.uar));
    a.pd = *a.engine.create_pd(ContextHandle(a.uar));
    cq = a.make_cq(4).handle;
  }
  std::uint32_t runs_until_idle() {
    std::uint32_t runs = 0;
    while (a.engine.run(a.now)) ++runs;
    return runs;
  }

  TestAdapter a{51};
  test::GuestMemory::Object page = a.memory.object(1);
  test::GuestMemory::Object pages = a.memory.object(3);
  CqHandle cq = a.make_cq(4).handle;
};

TEST_F(Teardown, WhatAContextHadIsGoneAtOnce) {
  TestCq own_cq = a.make_cq();
  TestMr mr = a.make_mr(4096);
  TestQp qp = a.make_qp(own_cq, own_cq);
  a.connect(qp, kPeer);
  TestQp waiting = a.make_qp(own_cq, own_cq);
  a.connect(waiting, kPeer);
  a.send(qp, {.sges = {mr.sge(0, 8)}});  // stays unanswered, so its timer runs
  a.wire.room = 0;
  a.send(waiting, {.sges = {mr.sge(0, 8)}});
  create(kMany);
  a.wire.requests.clear();

  ASSERT_TRUE(a.engine.destroy_context(ContextHandle(a.uar)));
  const Engine::ObjectCounts counts = a.engine.object_counts();
  EXPECT_EQ(counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs, 0u);
  EXPECT_THAT(a.engine.list_qps(), IsEmpty());
  EXPECT_EQ(a.engine.query_qp(qp.handle).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(a.engine.destroy_mr(mr.handle).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(a.engine.destroy_pd(a.pd).error(), CommandError::kNoSuchObject);
  SpanPayload nothing;
  a.engine.on_response({.from = kPeer, .to = a.endpoint(qp), .number = MessageNumber(kSqPsn)}, nothing,
                       a.now);
  EXPECT_EQ(a.engine.counters().dropped_unknown_qp, 1u);
  a.ring(qp);
  EXPECT_EQ(a.engine.counters().bad_doorbells, 1u);

  EXPECT_LE(a.engine.next_deadline(), a.now) << "there is memory to give back";
  EXPECT_GT(runs_until_idle(), 1u) << "in slices";
  a.wire.room = -1;
  a.engine.on_path_ready();
  EXPECT_EQ(a.engine.next_deadline(), Instant::never());
  a.advance(std::chrono::seconds(100));
  EXPECT_THAT(a.wire.requests, IsEmpty());
  EXPECT_THAT(a.events.async, IsEmpty());
}

// A guest may create, destroy and create objects again faster than run() is called.
TEST_F(Teardown, WhoCreatesAgainGivesBackWhatIsDead) {
  for (const bool by_reset : {false, true}) {
    create(kMany);
    if (by_reset) {
      a.engine.reset();
    } else {
      ASSERT_TRUE(a.engine.destroy_context(ContextHandle(a.uar)));
    }
    make_context_anew();
    create(kMany / 2 + 10);
    EXPECT_EQ(runs_until_idle(), 0u) << by_reset;
    ASSERT_TRUE(a.engine.destroy_context(ContextHandle(a.uar)));
    runs_until_idle();
    make_context_anew();
  }
}

TEST_F(Teardown, TheDeadAreNoReasonToRefuse) {
  Budgets budgets = Budgets::none();
  budgets.qps = kMany;
  Account account(budgets);
  const Limits limits;
  Engine engine(limits, Rules{}, a.memory.space(), a.events, a.wire, account);
  const test::GuestMemory::Object cq_pages = a.memory.object(2);
  for (int life = 0; life < 3; ++life) {
    ASSERT_TRUE(engine.create_context(1));
    CreateQp request = qp_request();
    request.pd = *engine.create_pd(ContextHandle(1));
    const auto made = engine.create_cq(
        {.context = ContextHandle(1), .cqe_count = 4, .page_count = 2, .page_directory = cq_pages.directory});
    ASSERT_TRUE(made) << life;
    request.send_cq = request.recv_cq = *made;
    for (std::uint32_t i = 0; i < kMany; ++i) ASSERT_TRUE(engine.create_qp(request)) << life << ": " << i;
    EXPECT_EQ(engine.create_qp(request).error(), CommandError::kNoMemory);
    ASSERT_TRUE(engine.destroy_context(ContextHandle(1)));
  }
}

// Destroying the context and the first attempt free 66 of the destroyed CQs. That is too little for a ring of
// 257 pages.
TEST_F(Teardown, ManySmallDeadAreNoReasonToRefuseALargeOne) {
  Budgets budgets = Budgets::none();
  budgets.rings_mib = 2;  // 512 pages
  Account account(budgets);
  const Limits limits;
  Engine engine(limits, Rules{}, a.memory.space(), a.events, a.wire, account);
  const test::GuestMemory::Object small = a.memory.object(2);
  const test::GuestMemory::Object large = a.memory.object(257);
  const CreateCq of_two{
      .context = ContextHandle(1), .cqe_count = 4, .page_count = 2, .page_directory = small.directory};
  const CreateCq of_many{
      .context = ContextHandle(1), .cqe_count = 16384, .page_count = 257, .page_directory = large.directory};
  ASSERT_TRUE(engine.create_context(1));
  for (int i = 0; i < 256; ++i) ASSERT_TRUE(engine.create_cq(of_two)) << i;
  EXPECT_EQ(engine.create_cq(of_many).error(), CommandError::kNoMemory) << "while they live";
  ASSERT_TRUE(engine.destroy_context(ContextHandle(1)));
  ASSERT_TRUE(engine.create_context(1));
  EXPECT_TRUE(engine.create_cq(of_many));
}

TEST_F(Teardown, ResetAgainAndAgainLeavesLittle) {
  create(kMany);
  for (std::uint32_t i = 0; i < kMany; ++i) a.engine.reset();
  EXPECT_LE(runs_until_idle(), 1u);
}

}  // namespace
}  // namespace pvrdma::verbs
