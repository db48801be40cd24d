// Keys, PDs, bounds, access rights of regions and QPs (docs/device.md 7.5, 9.2).
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

using driver::MemoryRegion;
using driver::Remote;

class RcAccess : public RcTest {
 protected:
  // The request fails at the responder with `status`, and b's memory does not change.
  void refused(const driver::SendRequest& request, Status status) {
    b_->fill(0, 64, 33);
    EXPECT_EQ(execute(request).status, status);
    EXPECT_TRUE(b_->holds(0, 64, 33));
    EXPECT_EQ(must(a_->qp->query()).qp_state, 6u);
    EXPECT_EQ(must(b_->qp->query()).qp_state, 6u);
  }
  Sge local() const { return a_->sge(0, 64); }
};

TEST_F(RcAccess, an_unknown_rkey) {
  const Sge sge = local();
  refused(wr::write(1, one(sge), {b_->remote().addr, b_->mr->rkey() ^ 0x8000}), Status::kRemoteAccess);
  EXPECT_GE(host_.info(1).verbs_counters.access_errors, 1u);
}

TEST_F(RcAccess, the_low_byte_of_a_key_counts) {
  const Sge sge = local();
  refused(wr::write(1, one(sge), {b_->remote().addr, b_->mr->rkey() ^ 1}), Status::kRemoteAccess);
}

TEST_F(RcAccess, one_byte_past_the_end) {
  const Sge sge = local();
  refused(wr::write(1, one(sge), b_->remote(b_->mr->length() - 63)), Status::kRemoteAccess);
}

TEST_F(RcAccess, one_byte_before_the_start) {
  const Sge sge = local();
  refused(wr::write(1, one(sge), {b_->remote().addr - 1, b_->mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, an_address_that_wraps) {
  const Sge sge = local();
  refused(wr::write(1, one(sge), {~0ULL - 5, b_->mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_region_of_another_pd) {
  auto pd = must(driver::ProtectionDomain::create(device(1).kernel()));
  auto mr = must(MemoryRegion::of_buffer(*pd, *b_->buffer, kFullAccess));
  const Sge sge = local();
  refused(wr::write(1, one(sge), {mr->start(), mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_region_without_remote_write) {
  auto mr =
      must(MemoryRegion::of_buffer(b_->pd, *b_->buffer, abi::kAccessLocalWrite | abi::kAccessRemoteRead));
  const Sge sge = local();
  refused(wr::write(1, one(sge), {mr->start(), mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_region_without_remote_read) {
  auto mr =
      must(MemoryRegion::of_buffer(b_->pd, *b_->buffer, abi::kAccessLocalWrite | abi::kAccessRemoteWrite));
  const Sge sge = local();
  refused(wr::read(1, one(sge), {mr->start(), mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_region_without_remote_atomic) {
  auto mr =
      must(MemoryRegion::of_buffer(b_->pd, *b_->buffer, abi::kAccessLocalWrite | abi::kAccessRemoteWrite));
  const Sge sge = a_->sge(0, 8);
  refused(wr::fetch_add(1, one(sge), {mr->start(), mr->rkey()}, 1), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_region_that_is_gone) {
  auto mr = must(MemoryRegion::of_buffer(b_->pd, *b_->buffer, kFullAccess));
  const Remote gone{mr->start(), mr->rkey()};
  must(mr->destroy());
  const Sge sge = local();
  refused(wr::write(1, one(sge), gone), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_dma_region_is_never_a_remote_key) {
  auto mr = must(MemoryRegion::of_all_memory(b_->pd, abi::kAccessLocalWrite));
  const Sge sge = local();
  refused(wr::write(1, one(sge), {b_->buffer->gpa().value, mr->rkey()}), Status::kRemoteAccess);
}

TEST_F(RcAccess, a_write_of_nothing_needs_no_key) {
  EXPECT_EQ(execute(wr::write(1, {}, {0x1234, 0xdead00})).status, Status::kSuccess);
}

class RcAccessFlags : public RcTest {
 protected:
  RcAccessFlags() : RcTest({}, {.access = abi::kAccessRemoteRead}) {}
};

TEST_F(RcAccessFlags, the_qp_has_to_allow_it_too) {
  const Sge sge = a_->sge(0, 64);
  EXPECT_EQ(execute(wr::read(1, one(sge), b_->remote())).status, Status::kSuccess);
  EXPECT_EQ(execute(wr::write(2, one(sge), b_->remote())).status, Status::kRemoteAccess);
}

// Access to the requester's own memory.
class RcLocalAccess : public RcTest {
 protected:
  void fails_here(const driver::SendRequest& request) {
    EXPECT_EQ(execute(request).status, Status::kLocalProtection);
    EXPECT_EQ(must(a_->qp->query()).qp_state, 6u);
    EXPECT_EQ(must(b_->qp->query()).qp_state, 3u);  // the peer is not affected
  }
};

TEST_F(RcLocalAccess, an_unknown_lkey) {
  const Sge sge{a_->mr->start(), 8, a_->mr->lkey() + 0x100};
  fails_here(wr::write(1, one(sge), b_->remote()));
}

TEST_F(RcLocalAccess, beyond_the_region) {
  const Sge sge = a_->sge(a_->mr->length() - 7, 8);
  fails_here(wr::write(1, one(sge), b_->remote()));
}

TEST_F(RcLocalAccess, a_huge_length) {
  const Sge sge = a_->sge(0, 0xffff'ffff);
  const WorkCompletion done = execute(wr::write(1, one(sge), b_->remote()));
  EXPECT_TRUE(done.status == Status::kLocalProtection || done.status == Status::kLocalLength);
}

TEST_F(RcLocalAccess, lengths_whose_sum_wraps) {
  const std::array sges{a_->sge(0, 0xffff'ffff), a_->sge(0, 0xffff'ffff), a_->sge(0, 2)};
  const WorkCompletion done = execute(wr::write(1, sges, b_->remote()));
  EXPECT_TRUE(done.status == Status::kLocalProtection || done.status == Status::kLocalLength);
}

TEST_F(RcLocalAccess, another_pd) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto mr = must(MemoryRegion::of_buffer(*pd, *a_->buffer, kFullAccess));
  const Sge sge = mr->sge(0, 8);
  fails_here(wr::write(1, one(sge), b_->remote()));
}

TEST_F(RcLocalAccess, a_read_into_memory_without_local_write) {
  auto mr = must(MemoryRegion::of_buffer(a_->pd, *a_->buffer, 0));
  const Sge sge = mr->sge(0, 8);
  EXPECT_EQ(execute(wr::write(1, one(sge), b_->remote())).status, Status::kSuccess);  // reading it is allowed
  EXPECT_EQ(execute(wr::read(2, one(sge), b_->remote())).status, Status::kLocalProtection);
}

TEST_F(RcLocalAccess, a_receive_into_memory_without_local_write) {
  auto mr = must(MemoryRegion::of_buffer(b_->pd, *b_->buffer, 0));
  const Sge to = mr->sge(0, 8);
  ASSERT_TRUE(b_->qp->post_recv(driver::ReceiveRequest{9, one(to)}).ok());
  const Sge sge = a_->sge(0, 8);
  EXPECT_EQ(execute(wr::send(1, one(sge))).status, Status::kRemoteOperation);
  EXPECT_EQ(await_one(*b_->recv_cq).status, Status::kLocalProtection);
}

TEST_F(RcLocalAccess, unaligned_regions_reach_exactly_their_bytes) {
  auto mr = must(
      // 3 pages, of which 2 only by one byte
      MemoryRegion::of_buffer(a_->pd, *a_->buffer, kFullAccess, 4095, 4098));
  a_->fill(4095, 4098, 17);
  const Sge all = mr->sge(0, 4098);
  EXPECT_EQ(execute(wr::write(1, one(all), b_->remote(1))).status, Status::kSuccess);
  EXPECT_TRUE(b_->holds(1, 4098, 17));
  const Sge over = mr->sge(0, 4099);
  fails_here(wr::write(2, one(over), b_->remote(1)));
}

TEST_F(RcLocalAccess, a_dma_region_is_a_local_key_of_physical_addresses) {
  auto mr = must(MemoryRegion::of_all_memory(a_->pd, abi::kAccessLocalWrite));
  auto flat = must(device(0).ram().allocate(8192, driver::Placement::kContiguous));
  std::memset(flat->data(), 0x5a, 8192);
  const Sge sge{flat->gpa().value, 8192, mr->lkey()};
  EXPECT_EQ(execute(wr::write(1, one(sge), b_->remote())).status, Status::kSuccess);
  EXPECT_EQ(b_->bytes()[8191], std::byte{0x5a});
  const Sge nowhere{0x10, 8, mr->lkey()};
  fails_here(wr::write(2, one(nowhere), b_->remote()));
}

}  // namespace
}  // namespace pvrdma::test
