// Adapters share copying time, not QPs: a guest's share of a turn does not depend on how many QPs, contexts
// and doorbells it spreads its work over.
#include "verbs/engine_fixture.h"
#include "verbs/turn_share.h"

namespace pvrdma::verbs {
namespace {

constexpr std::uint32_t kWriteBytes = 128 * 1024;

// A guest whose QPs, each connected to itself, write within its own memory as fast as the engine lets them.
class Guest {
 public:
  Guest(std::uint8_t host, std::uint32_t contexts, std::uint32_t qps_each) : adapter(host, 1, {}, 64u << 20) {
    adapter.wire.peer = &adapter.engine;
    for (UarIndex context = 1; context <= contexts; ++context) {
      if (context != 1) {
        EXPECT_TRUE(adapter.engine.create_context(context));
        adapter.uar = context;
        adapter.pd = *adapter.engine.create_pd(ContextHandle(context));
      }
      const TestCq cq = adapter.make_cq();
      const TestMr mr = adapter.make_mr(2 * kWriteBytes);
      for (std::uint32_t i = 0; i < qps_each; ++i) {
        TestQp qp = adapter.make_qp(cq, cq);
        adapter.connect(qp, adapter.endpoint(qp), {.sq_psn = 7, .rq_psn = 7});
        senders.push_back({std::move(qp), mr});
      }
    }
  }

  struct Sender {
    TestQp qp;
    TestMr mr;
  };
  void post(Sender& sender, std::uint32_t bytes) {
    SendWr wr{.flags = 0, .remote_addr = sender.mr.start + kWriteBytes, .rkey = sender.mr.key};
    wr.sges = {sender.mr.sge(0, bytes)};
    adapter.post(sender.qp, wr);
  }
  // Fills every send queue and rings its doorbell.
  void post_and_ring(std::uint32_t bytes = kWriteBytes) {
    for (Sender& each : senders) {
      while (each.qp.sends.waiting() < kDepth) post(each, bytes);
      adapter.ring(each.qp);
    }
  }
  std::uint64_t copied() const { return adapter.engine.counters().rx_bytes; }
  std::uint64_t messages() const { return adapter.engine.counters().rx_messages; }
  bool run() { return adapter.engine.run(adapter.now); }

  TestAdapter adapter;
  std::vector<Sender> senders;

 private:
  static constexpr std::uint32_t kDepth = 16;
};

// How much the busy guests copied, in percent of what the modest one copied, over many turns of the loop.
std::uint64_t percent_of(const Guest& busy, const Guest& modest) {
  return busy.copied() * 100 / modest.copied();
}

TEST(Fairness, NoGuestGetsMoreOfTheCopyingThanItsShare) {
  Guest modest(51, 1, 1);
  Guest many_qps(52, 1, 60);
  Guest many_contexts(53, 12, 4);
  for (int turn = 0; turn < 200; ++turn) {
    for (Guest* each : {&many_qps, &modest, &many_contexts}) each->post_and_ring();
    for (Guest* each : {&many_contexts, &many_qps, &modest}) EXPECT_TRUE(each->run());
  }
  EXPECT_GT(modest.copied(), 100 * TurnShare::kBytesPerTurn);
  EXPECT_NEAR(static_cast<double>(percent_of(many_qps, modest)), 100, 10);
  EXPECT_NEAR(static_cast<double>(percent_of(many_contexts, modest)), 100, 10);
}

TEST(Fairness, SmallMessagesCountWhatTheyCost) {
  Guest busy(51, 4, 15);
  constexpr int kTurns = 50;
  for (int turn = 0; turn < kTurns; ++turn) {
    for (int i = 0; i < 4; ++i) busy.post_and_ring(8);
    busy.run();
  }
  EXPECT_LE(busy.messages(), (kTurns + 1) * TurnShare::kBytesPerTurn / TurnShare::kBytesPerWork);
  EXPECT_GT(busy.messages(), kTurns * TurnShare::kBytesPerTurn / TurnShare::kBytesPerWork / 4);
}

TEST(Fairness, ANeighboursSmallWriteIsExecutedWhereItArrives) {
  Guest busy(51, 2, 30);
  Guest neighbour(52, 1, 1);
  for (int i = 0; i < 100; ++i) busy.post_and_ring();
  EXPECT_LT(busy.copied(), 2 * TurnShare::kBytesPerTurn) << "the rest waits for later turns";
  neighbour.post(neighbour.senders[0], 8);
  neighbour.adapter.ring(neighbour.senders[0].qp);
  EXPECT_EQ(neighbour.messages(), 1u);
}

TEST(Fairness, WhatADoorbellLeftIsDoneInLaterTurns) {
  Guest busy(51, 1, 8);
  busy.post_and_ring();
  while (busy.run()) {
  }
  EXPECT_EQ(busy.copied(), 8u * 16 * kWriteBytes);
  EXPECT_EQ(busy.adapter.engine.next_deadline(), Instant::never());
}

// An unused share is not saved up for a burst.
TEST(Fairness, ATurnBeginsWithOneShareAtMost) {
  TurnShare share;
  for (int i = 0; i < 10; ++i) share.begin();
  EXPECT_EQ(share.bytes_left(), TurnShare::kBytesPerTurn);
  share.spend(1, 3 * TurnShare::kBytesPerTurn);
  for (int i = 0; i < 2; ++i) {
    share.begin();
    EXPECT_TRUE(share.spent()) << "more than a share was spent";
  }
  share.begin();
  EXPECT_EQ(share.bytes_left(), TurnShare::kBytesPerTurn - TurnShare::kBytesPerWork);
}

}  // namespace
}  // namespace pvrdma::verbs
