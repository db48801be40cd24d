// Shared receive queues (docs/device.md 4.4, 7.7).
#include <array>

#include "device_test.h"

namespace pvrdma::test {
namespace {

class Srq : public DeviceTest {
 protected:
  void SetUp() override {
    user_ = must(driver::Context::create_user(device(1)));
    pd_ = must(driver::ProtectionDomain::create(*user_));
    srq_ = must(driver::SharedReceiveQueue::create(*pd_, {.max_wr = 32, .max_sge = 2}));
    for (int i = 0; i < 2; ++i) {
      senders_[i] = std::make_unique<RcEndpoint>(device(0), gid_of(0));
      receivers_[i] = std::make_unique<RcEndpoint>(device(1), gid_of(1),
                                                   EndpointOptions{.srq = srq_.get(), .pd = pd_.get()});
      must(connect(*senders_[i], *receivers_[i]));
    }
  }
  void TearDown() override {
    senders_ = {};
    receivers_ = {};
    srq_.reset();
    pd_.reset();
    user_.reset();
    DeviceTest::TearDown();
  }
  void post(std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes) {
    const Sge sge = receivers_[0]->sge(offset, bytes);
    ASSERT_TRUE(srq_->post_recv(driver::ReceiveRequest{wr_id, one(sge)}).ok());
  }
  void send(std::size_t who, std::uint32_t bytes) {
    const Sge sge = senders_[who]->sge(0, bytes);
    ASSERT_TRUE(senders_[who]->qp->post_send(wr::send(who, one(sge))).ok());
  }

  std::unique_ptr<driver::Context> user_;
  std::unique_ptr<driver::ProtectionDomain> pd_;
  std::unique_ptr<driver::SharedReceiveQueue> srq_;
  std::array<std::unique_ptr<RcEndpoint>, 2> senders_;
  std::array<std::unique_ptr<RcEndpoint>, 2> receivers_;
};

TEST_F(Srq, feeds_every_qp_in_the_order_of_arrival) {
  for (std::uint64_t i = 0; i < 32; ++i) post(i, i * 100, 100);
  const Sge sge = receivers_[0]->sge(0, 1);
  EXPECT_EQ(srq_->post_recv(driver::ReceiveRequest{1, one(sge)}).status, driver::PostStatus::kFull);
  for (std::uint64_t i = 0; i < 32; ++i) {
    send(i % 2, 100);
    ASSERT_TRUE(await_one(*senders_[i % 2]->send_cq).ok());
    const WorkCompletion got = await_one(*receivers_[i % 2]->recv_cq);
    EXPECT_EQ(got.wr_id, i);
    EXPECT_EQ(got.qpn, receivers_[i % 2]->qp->qpn());
  }
}

TEST_F(Srq, a_sender_waits_for_a_receive) {
  send(0, 8);
  EXPECT_TRUE(is_empty(*senders_[0]->send_cq));
  post(5, 0, 8);
  EXPECT_TRUE(await_one(*senders_[0]->send_cq).ok());
  EXPECT_EQ(await_one(*receivers_[0]->recv_cq).wr_id, 5u);
}

TEST_F(Srq, the_limit_fires_once_and_disarms) {
  for (std::uint64_t i = 0; i < 10; ++i) post(i, 0, 8);
  must(srq_->set_limit(9));
  EXPECT_EQ(must(srq_->query()).srq_limit, 9u);
  send(0, 8);
  send(0, 8);
  await(*receivers_[0]->recv_cq, 2);
  auto event = device(1).wait_async_event(kPatience);
  while (event && event->type != abi::EventType::kSrqLimitReached)
    event = device(1).wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->info, srq_->handle());
  EXPECT_EQ(must(srq_->query()).srq_limit, 0u);
  send(0, 8);
  await(*receivers_[0]->recv_cq, 1);
  EXPECT_FALSE(device(1).poll_async_event());
  await(*senders_[0]->send_cq, 3);
}

TEST_F(Srq, query_and_limits) {
  const abi::SrqAttr attr = must(srq_->query());
  EXPECT_EQ(attr.max_wr, 32u);
  EXPECT_EQ(attr.max_sge, 2u);
  EXPECT_FALSE(srq_->set_limit(33));
  EXPECT_EQ(code_of(srq_->destroy()), 16);
}

TEST_F(Srq, a_qp_in_error_leaves_the_receives_to_the_others) {
  for (std::uint64_t i = 0; i < 4; ++i) post(i, 0, 8);
  must(receivers_[0]->qp->to_error());
  EXPECT_TRUE(is_empty(*receivers_[0]->recv_cq));
  auto event = device(1).wait_async_event(kPatience);
  while (event && event->type != abi::EventType::kQpLastWqeReached)
    event = device(1).wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->info, receivers_[0]->qp->handle());
  send(1, 8);
  EXPECT_EQ(await_one(*receivers_[1]->recv_cq).wr_id, 0u);
  EXPECT_TRUE(await_one(*senders_[1]->send_cq).ok());
}

class NoSrq : public DeviceTest {
 protected:
  NoSrq() : DeviceTest({.hardware_version = HardwareVersion::k13}) {}
};

TEST_F(NoSrq, hardware_version_13_refuses_them) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  EXPECT_EQ(code_of(driver::SharedReceiveQueue::create(*pd)), 95);
  EXPECT_FALSE(device(0).commands().call<abi::CreateSrqResponse>(
      abi::Command::kCreateSrq, abi::CreateSrqRequest{.pd_handle = pd->handle(), .attrs = {.max_wr = 1}}));
}

}  // namespace
}  // namespace pvrdma::test
