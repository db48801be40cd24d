// Completion queues: arming, notifications, overflow, purge (docs/device.md 4.3, 5, 7.6, 7.9).
#include "device_test.h"

namespace pvrdma::test {
namespace {

using namespace std::chrono_literals;
using driver::CompletionQueue;

class Events : public RcTest {
 protected:
  void write_once(std::uint32_t flags = wr::kSignaled) {
    const Sge sge = a_->sge(0, 8);
    ASSERT_TRUE(a_->qp->post_send(wr::write(1, one(sge), b_->remote(), flags)).ok());
  }
  void send_once(std::uint32_t flags) {
    ASSERT_TRUE(b_->recv(1, 0, 8).ok());
    const Sge sge = a_->sge(0, 8);
    EXPECT_TRUE(execute(wr::send(1, one(sge), flags | wr::kSignaled)).ok());
  }
  // The events of b's receive queue since the last call.
  std::uint64_t received_events() { return b_->recv_cq->take_events(); }
};

TEST_F(Events, an_armed_queue_fires_once) {
  must(a_->send_cq->arm());
  EXPECT_EQ(a_->send_cq->take_events(), 0u);
  write_once();
  EXPECT_TRUE(a_->send_cq->wait(kPatience));
  write_once();
  EXPECT_EQ(a_->send_cq->take_events(), 0u);
  must(a_->send_cq->arm());
  await(*a_->send_cq, 2);
}

TEST_F(Events, an_unarmed_queue_never_fires) {
  write_once();
  await(*a_->send_cq, 1);
  EXPECT_EQ(a_->send_cq->take_events(), 0u);
}

TEST_F(Events, solicited_only_wants_solicited_or_failed) {
  must(b_->recv_cq->arm(CompletionQueue::Solicited::kOnly));
  send_once(0);
  EXPECT_EQ(received_events(), 0u);
  send_once(abi::kSendSolicited);
  EXPECT_EQ(received_events(), 1u);
  await(*b_->recv_cq, 2);

  must(b_->recv_cq->arm(CompletionQueue::Solicited::kOnly));
  ASSERT_TRUE(b_->recv(9, 0, 8).ok());
  must(b_->qp->to_error());
  EXPECT_EQ(received_events(), 1u);
}

TEST_F(Events, arming_for_any_overrides_solicited_and_not_the_other_way) {
  must(b_->recv_cq->arm(CompletionQueue::Solicited::kOnly));
  must(b_->recv_cq->arm());
  must(b_->recv_cq->arm(CompletionQueue::Solicited::kOnly));
  send_once(0);
  EXPECT_EQ(received_events(), 1u);
}

TEST_F(Events, arming_with_unread_completions_is_never_lost) {
  write_once();
  // The completion came before; a spurious event is allowed, but a lost later one is not.
  must(a_->send_cq->arm());
  await(*a_->send_cq, 1);
  a_->send_cq->take_events();
  must(a_->send_cq->arm());
  write_once();
  EXPECT_TRUE(a_->send_cq->wait(kPatience));
}

// Enough events for the notification ring's indices to wrap several times (4.3).
TEST_F(Events, five_thousand_events_in_order) {
  for (std::uint32_t i = 0; i < 5000; ++i) {
    must(a_->send_cq->arm());
    write_once();
    ASSERT_TRUE(a_->send_cq->wait(kPatience)) << i;
    ASSERT_TRUE(await_one(*a_->send_cq).ok());
  }
}

TEST_F(Events, many_queues_each_get_their_own) {
  std::vector<std::unique_ptr<RcEndpoint>> ends;
  for (std::uint32_t i = 0; i < 8; ++i) {
    ends.push_back(std::make_unique<RcEndpoint>(device(0), gid_of(0), EndpointOptions{.buffer_bytes = 4096}));
    must(ends.back()->connect_to(gid_of(1), b_->qp->qpn()));
    must(ends.back()->send_cq->arm());
  }
  for (std::uint32_t i = 0; i < 8; i += 2) {
    const Sge bad{0, 8, 0xdead00};
    ASSERT_TRUE(ends[i]->qp->post_send(wr::write(1, one(bad), b_->remote())).ok());
  }
  for (std::uint32_t i = 0; i < 8; ++i) EXPECT_EQ(ends[i]->send_cq->take_events(), i % 2 == 0 ? 1u : 0u);
}

class Overflow : public RcTest {
 protected:
  Overflow() : RcTest({.cq_entries = 4}) {}
};

TEST_F(Overflow, a_full_queue_is_an_error_and_overwrites_nothing) {
  const Sge sge = a_->sge(0, 8);
  for (std::uint64_t i = 0; i < 8; ++i)
    ASSERT_TRUE(a_->qp->post_send(wr::write(i, one(sge), b_->remote())).ok());
  auto event = device(0).wait_async_event(kPatience);
  while (event && event->type != abi::EventType::kCqErr) event = device(0).wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->info, a_->send_cq->handle());
  const auto done = await(*a_->send_cq, 4);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].wr_id, i);
  EXPECT_EQ(must(a_->qp->query()).qp_state, 6u);
  EXPECT_GE(host_.info(0).verbs_counters.cq_overflows, 1u);
}

TEST_F(Events, destroying_a_qp_leaves_the_completions_of_others) {
  auto& cq = *a_->send_cq;
  std::vector<std::unique_ptr<driver::QueuePair>> qps;
  std::vector<std::unique_ptr<RcEndpoint>> peers;
  for (std::uint32_t i = 0; i < 3; ++i) {
    qps.push_back(must(driver::QueuePair::create(a_->pd, {.send_cq = &cq, .recv_cq = &cq})));
    peers.push_back(
        std::make_unique<RcEndpoint>(device(1), gid_of(1), EndpointOptions{.buffer_bytes = 4096}));
    must(qps[i]->to_init({.access = 0}));
    must(qps[i]->to_rtr({.dest_qpn = peers[i]->qp->qpn(), .route = {.dgid = gid_of(1)}, .rq_psn = 5}));
    must(qps[i]->to_rts(driver::RtsAttributes{.sq_psn = 5}));
    must(peers[i]->connect_to(gid_of(0), qps[i]->qpn(), {.first_psn = 5}));
  }
  const Sge sge = a_->sge(0, 8);
  for (std::uint64_t round = 0; round < 5; ++round) {
    for (std::uint32_t i = 0; i < 3; ++i) {
      ASSERT_TRUE(qps[i]->post_send(wr::write(10 * round + i, one(sge), peers[i]->remote())).ok());
    }
  }
  must(qps[1]->destroy());
  const auto left = await(cq, 10);
  for (std::uint64_t round = 0; round < 5; ++round) {
    EXPECT_EQ(left[2 * round].wr_id, 10 * round);
    EXPECT_EQ(left[2 * round + 1].wr_id, 10 * round + 2);
  }
  EXPECT_TRUE(is_empty(cq));
}

}  // namespace
}  // namespace pvrdma::test
