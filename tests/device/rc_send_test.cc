// RC send and receive: sizes, scatter lists, immediate data, signalling, flush (docs/device.md 6, 7.3).
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

class RcSend : public RcTest {
 protected:
  RcSend() : RcTest({.buffer_bytes = 4 << 20}) {}
};

TEST_F(RcSend, every_size_from_nothing_to_a_megabyte) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size :
       {0u, 1u, 2u, 63u, 1023u, 1024u, 1025u, 4095u, 4097u, 65536u, 300'001u, 1u << 20}) {
    SCOPED_TRACE(size);
    a_->fill(3, size, seed);
    ASSERT_TRUE(b_->recv(size, (2 << 20) + 5, size).ok());
    const Sge sge = a_->sge(3, size);
    ASSERT_TRUE(a_->qp->post_send(wr::send(seed, one(sge))).ok());
    const WorkCompletion sent = await_one(*a_->send_cq);
    EXPECT_EQ(sent.status, Status::kSuccess);
    EXPECT_EQ(sent.opcode, Kind::kSend);
    EXPECT_EQ(sent.wr_id, seed);
    EXPECT_EQ(sent.qpn, a_->qp->qpn());
    const WorkCompletion got = await_one(*b_->recv_cq);
    EXPECT_EQ(got.status, Status::kSuccess);
    EXPECT_EQ(got.opcode, Kind::kRecv);
    EXPECT_EQ(got.wr_id, size);
    EXPECT_EQ(got.byte_len, size);
    EXPECT_EQ(got.flags & abi::kWcWithImm, 0u);
    EXPECT_TRUE(b_->holds((2 << 20) + 5, size, seed));
    ++seed;
  }
}

TEST_F(RcSend, immediate_data_arrives_as_the_number_sent) {
  ASSERT_TRUE(b_->recv(1, 0, 100).ok());
  const Sge sge = a_->sge(0, 10);
  EXPECT_EQ(execute(wr::send_imm(2, one(sge), 0x11223344)).status, Status::kSuccess);
  const WorkCompletion got = await_one(*b_->recv_cq);
  EXPECT_NE(got.flags & abi::kWcWithImm, 0u);
  EXPECT_EQ(got.immediate, 0x11223344u);
  EXPECT_EQ(got.byte_len, 10u);
}

TEST_F(RcSend, scatter_lists_at_both_ends_with_odd_pieces_and_empty_ones) {
  a_->fill(0, 10'000, 9);
  const std::array from{a_->sge(0, 1), a_->sge(1, 4999), a_->sge(0, 0), a_->sge(5000, 5000)};
  const std::array to{b_->sge(100'000, 4096), b_->sge(104'096, 7), b_->sge(104'103, 20'000)};
  ASSERT_TRUE(b_->qp->post_recv(driver::ReceiveRequest{1, to}).ok());
  ASSERT_TRUE(a_->qp->post_send(wr::send(2, from)).ok());
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kSuccess);
  EXPECT_EQ(await_one(*b_->recv_cq).byte_len, 10'000u);
  EXPECT_TRUE(b_->holds(100'000, 10'000, 9));
}

TEST_F(RcSend, a_list_of_requests_with_one_doorbell_completes_in_order) {
  std::vector<Sge> sges;
  std::vector<driver::SendRequest> requests;
  sges.reserve(32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    a_->fill(i * 100, 100, static_cast<std::uint8_t>(i));
    ASSERT_TRUE(b_->recv(i, 50'000 + i * 100, 100).ok());
    sges.push_back(a_->sge(i * 100, 100));
    requests.push_back(wr::send(i, one(sges.back())));
  }
  const auto before = host_.info(0).device_counters.doorbells;
  ASSERT_TRUE(a_->qp->post_send(requests).ok());
  EXPECT_EQ(host_.info(0).device_counters.doorbells, before + 1);
  const auto sent = await(*a_->send_cq, 32);
  const auto got = await(*b_->recv_cq, 32);
  for (std::uint32_t i = 0; i < 32; ++i) {
    EXPECT_EQ(sent[i].wr_id, i);
    EXPECT_EQ(got[i].wr_id, i);
    EXPECT_TRUE(b_->holds(50'000 + i * 100, 100, static_cast<std::uint8_t>(i)));
  }
}

TEST_F(RcSend, unsignalled_requests_complete_silently_unless_they_fail) {
  const Sge sge = a_->sge(0, 8);
  for (std::uint32_t i = 0; i < 10; ++i) {
    ASSERT_TRUE(b_->recv(i, 0, 8).ok());
    ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(sge), i == 9 ? wr::kSignaled : 0)).ok());
  }
  EXPECT_EQ(await_one(*a_->send_cq).wr_id, 9u);
  EXPECT_TRUE(is_empty(*a_->send_cq));
  await(*b_->recv_cq, 10);

  const Sge bad{a_->mr->start(), 8, 0x12345600};
  EXPECT_EQ(execute(wr::send(77, one(bad), 0)).status, Status::kLocalProtection);
}

TEST_F(RcSend, the_whole_ring_again_and_again) {
  const Sge sge = a_->sge(0, 4);
  for (std::uint64_t round = 0; round < 10; ++round) {
    for (std::uint64_t i = 0; i < 64; ++i) ASSERT_TRUE(b_->recv(i, 0, 4).ok());
    const driver::Sge four = b_->sge(0, 4);
    EXPECT_EQ(b_->qp->post_recv(driver::ReceiveRequest{1, one(four)}).status, driver::PostStatus::kFull);
    std::vector<driver::SendRequest> requests(64, wr::send(round, one(sge)));
    ASSERT_EQ(a_->qp->post_send(requests).count, 64u);
    await(*a_->send_cq, 64);
    await(*b_->recv_cq, 64);
  }
}

TEST_F(RcSend, requests_without_a_doorbell_go_with_the_next_one) {
  const Sge sge = a_->sge(0, 4);
  for (std::uint64_t i = 0; i < 3; ++i) ASSERT_TRUE(b_->recv(i, 0, 4).ok());
  const std::array two{wr::send(1, one(sge)), wr::send(2, one(sge))};
  ASSERT_TRUE(a_->qp->post_send(two, driver::Doorbell::kSkip).ok());
  EXPECT_TRUE(is_empty(*a_->send_cq));
  ASSERT_TRUE(a_->qp->post_send(wr::send(3, one(sge))).ok());
  EXPECT_EQ(await(*a_->send_cq, 3)[2].wr_id, 3u);
  await(*b_->recv_cq, 3);
}

TEST_F(RcSend, receives_without_a_doorbell_are_found) {
  const Sge to = b_->sge(0, 4);
  const driver::ReceiveRequest receive{5, one(to)};
  ASSERT_TRUE(b_->qp->post_recv(std::span(&receive, 1), driver::Doorbell::kSkip).ok());
  const Sge sge = a_->sge(0, 4);
  EXPECT_EQ(execute(wr::send(1, one(sge))).status, Status::kSuccess);
  EXPECT_EQ(await_one(*b_->recv_cq).wr_id, 5u);
}

TEST_F(RcSend, a_message_longer_than_the_receive_fails_both_ends) {
  ASSERT_TRUE(b_->recv(5, 0, 10).ok());
  const Sge sge = a_->sge(0, 11);
  EXPECT_EQ(execute(wr::send(1, one(sge))).status, Status::kRemoteInvalidRequest);
  EXPECT_EQ(await_one(*b_->recv_cq).status, Status::kLocalLength);
  EXPECT_EQ(must(a_->qp->query()).qp_state, 6u);
  EXPECT_EQ(must(b_->qp->query()).qp_state, 6u);
}

TEST_F(RcSend, more_sges_than_the_qp_was_made_for_end_the_qp) {
  std::byte* element = a_->qp->send_ring().element(0);
  abi::SendWqeHeader header{};
  header.wr_id = 3;
  header.opcode = static_cast<std::uint32_t>(abi::Opcode::kSend);
  header.num_sge = 5;
  std::memcpy(element, &header, sizeof(header));
  a_->qp->send_ring().commit();
  must(a_->qp->ring_doorbell(abi::kQpDoorbellSend));
  const WorkCompletion done = await_one(*a_->send_cq);
  EXPECT_EQ(done.wr_id, 3u);
  EXPECT_EQ(done.status, Status::kLocalQpOperation);
}

TEST_F(RcSend, going_to_error_flushes_everything_in_order) {
  const Sge sge = a_->sge(0, 8);
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(a_->recv(100 + i, 0, 8).ok());
  for (std::uint64_t i = 0; i < 5; ++i) ASSERT_TRUE(a_->qp->post_send(wr::send(i, one(sge), 0)).ok());  // RNR
  must(a_->qp->to_error());
  const auto sends = await(*a_->send_cq, 5);
  const auto receives = await(*a_->recv_cq, 5);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(sends[i].status, Status::kFlushed);
    EXPECT_EQ(sends[i].wr_id, i);
    EXPECT_EQ(receives[i].status, Status::kFlushed);
    EXPECT_EQ(receives[i].wr_id, 100 + i);
  }
  // Requests posted in ERR are flushed at once.
  ASSERT_TRUE(a_->qp->post_send(wr::send(50, one(sge))).ok());
  ASSERT_TRUE(a_->recv(51, 0, 8).ok());
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kFlushed);
  EXPECT_EQ(await_one(*a_->recv_cq).status, Status::kFlushed);
}

}  // namespace
}  // namespace pvrdma::test
