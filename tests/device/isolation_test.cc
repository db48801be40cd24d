// Isolation between the user processes of a guest (docs/device.md 9.2).
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

class Isolation : public DeviceTest {
 protected:
  void SetUp() override {
    mallory_ = must(driver::Context::create_user(device(0)));
    victim_ = must(driver::Context::create_user(device(0)));
    m_ = std::make_unique<RcEndpoint>(device(0), gid_of(0), EndpointOptions{.context = mallory_.get()});
    v_ = std::make_unique<RcEndpoint>(device(0), gid_of(0), EndpointOptions{.context = victim_.get()});
    peer_ = std::make_unique<RcEndpoint>(device(1), gid_of(1));
    must(connect(*m_, *peer_));
  }
  void TearDown() override {
    m_.reset();
    v_.reset();
    peer_.reset();
    mallory_.reset();
    victim_.reset();
    DeviceTest::TearDown();
  }
  void fails(const driver::SendRequest& request, Status status) {
    ASSERT_TRUE(m_->qp->post_send(request).ok());
    EXPECT_EQ(await_one(*m_->send_cq).status, status);
  }

  std::unique_ptr<driver::Context> mallory_;
  std::unique_ptr<driver::Context> victim_;
  std::unique_ptr<RcEndpoint> m_;
  std::unique_ptr<RcEndpoint> v_;
  std::unique_ptr<RcEndpoint> peer_;
};

TEST_F(Isolation, contexts_have_handles_and_pages_of_their_own) {
  EXPECT_NE(mallory_->handle(), 0u);
  EXPECT_NE(victim_->handle(), mallory_->handle());
  EXPECT_NE(victim_->uar(), mallory_->uar());
  EXPECT_NE(m_->qp->handle(), 0u);
}

TEST_F(Isolation, fast_registration_and_invalidation_are_the_kernels) {
  driver::SendRequest request = wr::plain(abi::Opcode::kFastRegMr, 1, {}, wr::kSignaled);
  request.wqe.set_form(abi::FastRegFields{.iova_start = 0x1000,
                                          .pl_pdir_dma = device(0).ram().base().value,
                                          .page_shift = 12,
                                          .page_list_len = 1,
                                          .length = 4096,
                                          .access_flags = 7,
                                          .rkey = m_->mr->rkey()});
  fails(request, Status::kLocalQpOperation);
}

TEST_F(Isolation, opcodes_beyond_the_atomics_end_a_users_qp) {
  for (const std::uint32_t opcode : {7u, 8u, 9u, 10u, 11u, 12u, 13u, 14u, 15u, 16u, 0xffffffffu}) {
    SCOPED_TRACE(opcode);
    const Sge sge = m_->sge(0, 8);
    driver::SendRequest request = wr::write(opcode, one(sge), peer_->remote());
    request.wqe.opcode = opcode;
    fails(request, Status::kLocalQpOperation);
    EXPECT_EQ(must(m_->qp->query()).qp_state, 6u);
    must(m_->qp->to_reset());
    must(peer_->qp->to_reset());
    must(connect(*m_, *peer_));
  }
}

TEST_F(Isolation, dma_keys_and_fast_register_regions_are_the_kernels) {
  EXPECT_EQ(code_of(driver::MemoryRegion::of_all_memory(m_->pd, 1)), 1);
  EXPECT_EQ(code_of(driver::MemoryRegion::for_fast_register(m_->pd, 1)), 1);
}

TEST_F(Isolation, keys_of_another_process) {
  const Sge sge = v_->sge(0, 8);
  fails(wr::write(1, one(sge), peer_->remote()), Status::kLocalProtection);
}

TEST_F(Isolation, doorbells_reach_only_the_pages_own_objects) {
  const auto before = host_.info(0).verbs_counters.bad_doorbells;
  RcEndpoint other(device(1), gid_of(1));
  must(connect(*v_, other));
  const Sge sge = v_->sge(0, 8);
  const driver::SendRequest quiet = wr::write(1, one(sge), other.remote());
  ASSERT_TRUE(v_->qp->post_send(std::span(&quiet, 1), driver::Doorbell::kSkip).ok());
  must(mallory_->ring(abi::UarWord::kQp, v_->qp->handle() | abi::kQpDoorbellSend));
  must(mallory_->ring(abi::UarWord::kCq, v_->send_cq->handle() | abi::kCqDoorbellArm));
  must(device(0).kernel().ring(abi::UarWord::kQp, v_->qp->handle() | abi::kQpDoorbellSend));
  EXPECT_TRUE(is_empty(*v_->send_cq));
  EXPECT_EQ(host_.info(0).verbs_counters.bad_doorbells, before + 3);
  must(v_->qp->ring_doorbell(abi::kQpDoorbellSend));
  EXPECT_TRUE(await_one(*v_->send_cq).ok());
}

TEST_F(Isolation, queues_of_another_process_cannot_be_used) {
  EXPECT_FALSE(
      driver::QueuePair::create(m_->pd, {.send_cq = v_->send_cq.get(), .recv_cq = m_->recv_cq.get()}));
  EXPECT_FALSE(
      driver::QueuePair::create(m_->pd, {.send_cq = m_->send_cq.get(), .recv_cq = v_->recv_cq.get()}));
  auto srq = must(driver::SharedReceiveQueue::create(v_->pd));
  EXPECT_FALSE(driver::QueuePair::create(
      m_->pd, {.send_cq = m_->send_cq.get(), .recv_cq = m_->recv_cq.get(), .srq = srq.get()}));
}

TEST_F(Isolation, a_dying_processs_context_takes_its_objects_along) {
  expect_tidy_ = false;
  const auto before = host_.info(0).objects;
  must(victim_->destroy());
  const auto after = host_.info(0).objects;
  EXPECT_LT(after.qps, before.qps);
  EXPECT_EQ(after.contexts, before.contexts - 1);
  const Sge sge = m_->sge(0, 8);
  ASSERT_TRUE(m_->qp->post_send(wr::write(1, one(sge), peer_->remote())).ok());
  EXPECT_TRUE(await_one(*m_->send_cq).ok());
}

}  // namespace
}  // namespace pvrdma::test
