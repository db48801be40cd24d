// RC write, write with immediate, read and atomics (docs/device.md 6.2, 7.5).
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

class RcRdma : public RcTest {
 protected:
  RcRdma() : RcTest({.buffer_bytes = 4 << 20}) {}

  std::uint64_t load(const RcEndpoint& end, std::size_t offset) const {
    std::uint64_t value = 0;
    std::memcpy(&value, end.bytes(offset), sizeof(value));
    return value;
  }
  void store(const RcEndpoint& end, std::size_t offset, std::uint64_t value) const {
    std::memcpy(end.bytes(offset), &value, sizeof(value));
  }
};

TEST_F(RcRdma, writes_of_every_size) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : {0u, 1u, 4096u, 65536u, 262'145u, 1u << 20}) {
    SCOPED_TRACE(size);
    a_->fill(11, size, seed);
    const Sge sge = a_->sge(11, size);
    const WorkCompletion done = execute(wr::write(seed, one(sge), b_->remote(777)));
    EXPECT_EQ(done.status, Status::kSuccess);
    EXPECT_EQ(done.opcode, Kind::kRdmaWrite);
    EXPECT_TRUE(b_->holds(777, size, seed++));
  }
  EXPECT_TRUE(is_empty(*b_->recv_cq));
}

TEST_F(RcRdma, reads_of_every_size) {
  std::uint8_t seed = 1;
  for (const std::uint32_t size : {0u, 1u, 4096u, 65536u, 262'145u, 2u << 20}) {
    SCOPED_TRACE(size);
    b_->fill(777, size, seed);
    const Sge sge = a_->sge(11, size);
    const WorkCompletion done = execute(wr::read(seed, one(sge), b_->remote(777)));
    EXPECT_EQ(done.status, Status::kSuccess);
    EXPECT_EQ(done.opcode, Kind::kRdmaRead);
    EXPECT_EQ(done.byte_len, size);
    EXPECT_TRUE(a_->holds(11, size, seed++));
  }
}

TEST_F(RcRdma, a_read_scatters) {
  b_->fill(0, 9000, 4);
  const std::array to{a_->sge(5, 4000), a_->sge(4005, 1), a_->sge(4006, 4999)};
  ASSERT_TRUE(a_->qp->post_send(wr::read(1, to, b_->remote())).ok());
  EXPECT_EQ(await_one(*a_->send_cq).status, Status::kSuccess);
  EXPECT_TRUE(a_->holds(5, 9000, 4));
}

TEST_F(RcRdma, a_write_with_immediate_takes_one_receive) {
  a_->fill(0, 5000, 3);
  ASSERT_TRUE(b_->recv(42, 0, 0).ok());
  const Sge sge = a_->sge(0, 5000);
  EXPECT_EQ(execute(wr::write_imm(1, one(sge), b_->remote(64), 0xcafe0001)).opcode, Kind::kRdmaWrite);
  const WorkCompletion got = await_one(*b_->recv_cq);
  EXPECT_EQ(got.status, Status::kSuccess);
  EXPECT_EQ(got.opcode, Kind::kRecvRdmaWithImm);
  EXPECT_EQ(got.wr_id, 42u);
  EXPECT_EQ(got.byte_len, 5000u);
  EXPECT_EQ(got.immediate, 0xcafe0001u);
  EXPECT_TRUE(b_->holds(64, 5000, 3));
}

TEST_F(RcRdma, compare_and_swap_swaps_only_on_a_match) {
  store(*b_, 128, 5);
  const Sge sge = a_->sge(0, 8);
  const WorkCompletion hit = execute(wr::compare_swap(1, one(sge), b_->remote(128), 5, 99));
  EXPECT_EQ(hit.status, Status::kSuccess);
  EXPECT_EQ(hit.opcode, Kind::kCompSwap);
  EXPECT_EQ(hit.byte_len, 8u);
  EXPECT_EQ(load(*a_, 0), 5u);
  EXPECT_EQ(load(*b_, 128), 99u);
  EXPECT_EQ(execute(wr::compare_swap(2, one(sge), b_->remote(128), 5, 7)).status, Status::kSuccess);
  EXPECT_EQ(load(*a_, 0), 99u);
  EXPECT_EQ(load(*b_, 128), 99u);
}

TEST_F(RcRdma, fetch_and_add_wraps) {
  store(*b_, 8, ~0ULL);
  const Sge sge = a_->sge(16, 8);
  EXPECT_EQ(execute(wr::fetch_add(1, one(sge), b_->remote(8), 2)).opcode, Kind::kFetchAdd);
  EXPECT_EQ(load(*a_, 16), ~0ULL);
  EXPECT_EQ(load(*b_, 8), 1u);
}

TEST_F(RcRdma, an_unaligned_atomic_is_an_invalid_request) {
  const Sge sge = a_->sge(0, 8);
  EXPECT_EQ(execute(wr::fetch_add(1, one(sge), b_->remote(4), 2)).status, Status::kRemoteInvalidRequest);
}

TEST_F(RcRdma, an_atomic_whose_result_has_no_8_bytes_to_go_to_fails_here) {
  const Sge sge = a_->sge(0, 4);
  const WorkCompletion done = execute(wr::fetch_add(1, one(sge), b_->remote(0), 2));
  EXPECT_TRUE(done.status == Status::kLocalLength || done.status == Status::kLocalQpOperation)
      << static_cast<int>(done.status);
  EXPECT_EQ(load(*b_, 0), 0u);
}

TEST_F(RcRdma, a_fenced_request_waits_for_the_reads_before_it) {
  b_->fill(0, 1 << 20, 8);
  const Sge into = a_->sge(0, 1 << 20);
  const Sge nothing = a_->sge(0, 8);
  const std::array requests{
      wr::read(1, one(into), b_->remote()),
      wr::write(2, one(nothing), b_->remote(2 << 20), abi::kSendSignaled | abi::kSendFence)};
  ASSERT_TRUE(a_->qp->post_send(requests).ok());
  const auto done = await(*a_->send_cq, 2);
  EXPECT_EQ(done[0].wr_id, 1u);
  EXPECT_EQ(done[1].wr_id, 2u);
  EXPECT_TRUE(b_->holds(2 << 20, 8, 8));  // the data from the read
}

class RcOneRead : public RcTest {
 protected:
  RcOneRead() : RcTest({}, {.max_rd_atomic = 1, .max_dest_rd_atomic = 1}) {}
};

TEST_F(RcOneRead, max_rd_atomic_limits_but_loses_nothing) {
  b_->fill(0, 4096, 5);
  const Sge sge = a_->sge(0, 4096);
  std::vector<driver::SendRequest> requests;
  for (std::uint64_t i = 0; i < 40; ++i) requests.push_back(wr::read(i, one(sge), b_->remote()));
  ASSERT_TRUE(a_->qp->post_send(requests).ok());
  const auto done = await(*a_->send_cq, 40);
  for (std::uint64_t i = 0; i < done.size(); ++i) {
    EXPECT_EQ(done[i].wr_id, i);
    EXPECT_EQ(done[i].status, Status::kSuccess);
  }
}

class RcNoAtomics : public RcTest {
 protected:
  RcNoAtomics() : RcTest({}, {}, {.profile = Profile::kEsxi}) {}
};

TEST_F(RcNoAtomics, the_esxi_profile_has_none) {
  EXPECT_EQ(device(0).caps().atomic_ops, 0);
  const Sge sge = a_->sge(0, 8);
  const WorkCompletion done = execute(wr::fetch_add(1, one(sge), b_->remote(0), 2));
  EXPECT_FALSE(done.ok());
}

}  // namespace
}  // namespace pvrdma::test
