// Behaviour that depends on time: RNR timers and counts, and retries towards a missing peer. With a manual
// clock (docs/device.md 7.3; IBTA vol. 1, 9.7.5.2.8, 9.9.2.4.1).
#include <array>

#include "device_test.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

using namespace std::chrono_literals;

class Timing : public ::testing::Test {
 protected:
  void make(const ConnectOptions& options) {
    options_ = options;
    a_ = std::make_unique<RcEndpoint>(bench_.device(0), gid_of(0));
    b_ = std::make_unique<RcEndpoint>(bench_.device(1), gid_of(1));
    must(connect(*a_, *b_, options));
  }
  // Posts a request on a and reports when it completes, within `limit`.
  struct Outcome {
    WorkCompletion completion;
    Duration after;
  };
  Outcome outcome(const driver::SendRequest& request, Duration limit = 3600s) {
    const Instant start = bench_.now();
    EXPECT_TRUE(a_->qp->post_send(request).ok());
    return outcome_since(start, limit);
  }
  Outcome outcome_since(Instant start, Duration limit = 3600s) {
    Outcome out{};
    EXPECT_TRUE(
        bench_.run_until([&] { return a_->send_cq->poll(std::span(&out.completion, 1)) == 1; }, limit));
    out.after = bench_.now() - start;
    return out;
  }
  verbs::Counters counters(std::uint32_t index) { return bench_.adapter(index).info().verbs_counters; }

  Testbench bench_;
  ConnectOptions options_;
  std::unique_ptr<RcEndpoint> a_;
  std::unique_ptr<RcEndpoint> b_;
};

TEST_F(Timing, rnr_is_retried_as_often_as_asked_then_fails) {
  for (const std::uint8_t retries : std::array<std::uint8_t, 4>{0, 1, 3, 6}) {
    SCOPED_TRACE(static_cast<int>(retries));
    make({.rnr_retry = retries, .min_rnr_timer = 14});  // 1.28 ms
    const auto before = counters(0).rnr_naks_received;
    const Sge sge = a_->sge(0, 8);
    const Outcome done = outcome(wr::send(1, one(sge)));
    EXPECT_EQ(done.completion.status, Status::kRnrRetryExceeded);
    EXPECT_EQ(counters(0).rnr_naks_received - before, retries + 1u);
    EXPECT_GE(done.after, retries * 1280us);
    EXPECT_LE(done.after, (retries + 1) * 1280us * 2);
  }
}

TEST_F(Timing, rnr_seven_is_for_ever) {
  make({.rnr_retry = 7, .min_rnr_timer = 1});
  const Sge sge = a_->sge(0, 8);
  ASSERT_TRUE(a_->qp->post_send(wr::send(1, one(sge))).ok());
  bench_.advance(2s);
  EXPECT_TRUE(is_empty(*a_->send_cq));
  ASSERT_TRUE(b_->recv(2, 0, 8).ok());
  EXPECT_TRUE(outcome_since(bench_.now(), 1s).completion.ok());
}

TEST_F(Timing, the_wait_is_the_responders_min_rnr_timer) {
  struct Timer {
    std::uint8_t code;
    Duration wait;
  };
  for (const Timer timer :
       {Timer{1, 10us}, Timer{12, 640us}, Timer{20, 10240us}, Timer{31, 491520us}, Timer{0, 655360us}}) {
    SCOPED_TRACE(static_cast<int>(timer.code));
    make({.rnr_retry = 2, .min_rnr_timer = timer.code});
    const Sge sge = a_->sge(0, 8);
    const Outcome done = outcome(wr::send(1, one(sge)));
    EXPECT_EQ(done.completion.status, Status::kRnrRetryExceeded);
    EXPECT_GE(done.after, 2 * timer.wait);
    EXPECT_LE(done.after, 6 * timer.wait);
  }
}

TEST_F(Timing, a_receive_doorbell_wakes_a_parked_sender_and_order_holds) {
  make({.rnr_retry = 7, .min_rnr_timer = 31});
  const Sge sge = a_->sge(0, 8);
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(sge))).ok());
  for (std::uint64_t i = 0; i < 4; ++i) ASSERT_TRUE(b_->recv(10 + i, 0, 8).ok());
  bench_.advance(1s);
  std::array<WorkCompletion, 8> done;
  ASSERT_EQ(a_->send_cq->poll(done), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].wr_id, i);
  ASSERT_EQ(b_->recv_cq->poll(done), 4u);
  for (std::uint64_t i = 0; i < 4; ++i) EXPECT_EQ(done[i].wr_id, 10 + i);
}

// IBTA: the wait before a retry is between timeout and 4 * timeout; retry_cnt retries after the first try.
TEST_F(Timing, a_peer_that_does_not_exist_is_retried_then_given_up) {
  struct Case {
    std::uint8_t timeout;
    std::uint8_t retries;
  };
  for (const Case c : {Case{10, 0}, Case{10, 3}, Case{14, 7}, Case{16, 1}}) {
    SCOPED_TRACE(::testing::Message() << int{c.timeout} << " " << int{c.retries});
    make({.timeout = c.timeout, .retry_cnt = c.retries});
    must(a_->qp->to_reset());
    must(a_->connect_to(gid_of(9), 55, options_ = {.timeout = c.timeout, .retry_cnt = c.retries}));
    const Sge sge = a_->sge(0, 8);
    const Outcome done = outcome(wr::send(1, one(sge)));
    const Duration timeout = 4096ns * (1 << c.timeout);
    EXPECT_EQ(done.completion.status, Status::kRetryExceeded);
    EXPECT_GE(done.after, timeout * (c.retries + 1));
    EXPECT_LE(done.after, 4 * timeout * (c.retries + 1));
    EXPECT_EQ(must(a_->qp->query()).qp_state, 6u);
  }
}

TEST_F(Timing, a_qp_that_does_not_exist_looks_the_same) {
  make({.timeout = 10, .retry_cnt = 2});
  must(b_->qp->destroy());
  const Sge sge = a_->sge(0, 8);
  EXPECT_EQ(outcome(wr::write(1, one(sge), b_->remote())).completion.status, Status::kRetryExceeded);
}

TEST_F(Timing, timeout_zero_waits_for_ever) {
  make({.timeout = 0, .retry_cnt = 2});
  must(b_->qp->destroy());
  const Sge sge = a_->sge(0, 8);
  ASSERT_TRUE(a_->qp->post_send(wr::write(1, one(sge), b_->remote())).ok());
  bench_.advance(3600s);
  EXPECT_TRUE(is_empty(*a_->send_cq));
}

TEST_F(Timing, a_vm_that_dies_fails_its_peers_and_comes_back) {
  make({.timeout = 12, .retry_cnt = 3});
  bench_.kill(1);
  const Sge sge = a_->sge(0, 8);
  ASSERT_TRUE(a_->qp->post_send(wr::write(2, one(sge), b_->remote(), 0)).ok());
  const Outcome done = outcome(wr::write(1, one(sge), b_->remote()));
  EXPECT_EQ(done.completion.status, Status::kRetryExceeded);
  EXPECT_EQ(done.completion.wr_id, 2u);  // unsignalled, but it failed
  EXPECT_EQ(outcome_since(bench_.now()).completion.status, Status::kFlushed);
  b_.reset();
  bench_.forget_device(1);
  a_.reset();
  make({});
  ASSERT_TRUE(b_->recv(1, 0, 8).ok());
  const Sge again = a_->sge(0, 8);
  EXPECT_TRUE(outcome(wr::send(1, one(again))).completion.ok());
}

TEST_F(Timing, both_ends_on_one_adapter) {
  RcEndpoint a(bench_.device(0), gid_of(0));
  RcEndpoint b(bench_.device(0), gid_of(0));
  must(connect(a, b));
  a.fill(0, 1000, 1);
  const Sge sge = a.sge(0, 1000);
  ASSERT_TRUE(a.qp->post_send(wr::write(1, one(sge), b.remote())).ok());
  bench_.run();
  WorkCompletion done;
  ASSERT_EQ(a.send_cq->poll(std::span(&done, 1)), 1u);
  EXPECT_TRUE(done.ok());
  EXPECT_TRUE(b.holds(0, 1000, 1));
}

}  // namespace
}  // namespace pvrdma::test
