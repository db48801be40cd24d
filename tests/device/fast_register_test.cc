// Fast registration and invalidation, by which kernel clients register memory (docs/device.md 6.4).
#include "device_test.h"

namespace pvrdma::test {
namespace {

class FastRegister : public RcTest {
 protected:
  void SetUp() override {
    RcTest::SetUp();
    region_ = must(driver::MemoryRegion::for_fast_register(b_->pd, 16));
    pages_ = must(device(1).ram().allocate(8 * 4096));
  }
  void TearDown() override {
    region_.reset();
    pages_.reset();
    RcTest::TearDown();
  }
  WorkCompletion on_b(const driver::SendRequest& request) {
    EXPECT_TRUE(b_->qp->post_send(request).ok());
    return await_one(*b_->send_cq);
  }
  WorkCompletion map(std::uint64_t iova, std::uint32_t length, std::uint32_t access = kFullAccess) {
    region_->next_key();
    return on_b(wr::fast_register(1, *region_, iova, length, access));
  }

  std::unique_ptr<driver::MemoryRegion> region_;
  std::unique_ptr<driver::Buffer> pages_;
};

TEST_F(FastRegister, an_unaligned_list_of_scattered_pages_is_reached_by_the_peer) {
  constexpr std::uint64_t kIova = 0x1f9b'2c00;
  must(region_->set_page_list(pages_->pages().first(3)));
  const WorkCompletion done = map(kIova, 8192);
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.opcode, Kind::kFastRegMr);
  a_->fill(0, 8192, 21);
  const Sge sge = a_->sge(0, 8192);
  EXPECT_TRUE(execute(wr::write(2, one(sge), {kIova, region_->rkey()})).ok());
  for (std::size_t i = 0; i < 8192; ++i) ASSERT_EQ(pages_->data()[0xc00 + i], a_->bytes()[i]) << i;
}

TEST_F(FastRegister, the_page_list_is_copied_when_the_request_runs) {
  must(region_->set_page_list(pages_->pages().first(1)));
  EXPECT_TRUE(map(0x1000, 4096).ok());
  must(region_->set_page_list(pages_->pages().subspan(1, 1)));
  a_->fill(0, 4096, 5);
  const Sge sge = a_->sge(0, 4096);
  EXPECT_TRUE(execute(wr::write(2, one(sge), {0x1000, region_->rkey()})).ok());
  EXPECT_EQ(pages_->data()[100], a_->bytes()[100]);
  EXPECT_EQ(pages_->data()[4096 + 100], std::byte{0});
}

TEST_F(FastRegister, keys_change_from_registration_to_registration) {
  must(region_->set_page_list(pages_->pages().first(1)));
  EXPECT_TRUE(map(0x1000, 64).ok());
  const std::uint32_t old = region_->rkey();
  EXPECT_TRUE(on_b(wr::local_invalidate(3, old)).ok());
  EXPECT_TRUE(map(0x1000, 64).ok());
  EXPECT_NE(region_->rkey(), old);
  const Sge sge = a_->sge(0, 8);
  EXPECT_TRUE(execute(wr::write(2, one(sge), {0x1000, region_->rkey()})).ok());
  EXPECT_EQ(execute(wr::write(2, one(sge), {0x1000, old})).status, Status::kRemoteAccess);
}

TEST_F(FastRegister, before_registration_and_after_invalidation_the_key_is_void) {
  must(region_->set_page_list(pages_->pages().first(1)));
  EXPECT_TRUE(map(0x1000, 64).ok());
  const WorkCompletion done = on_b(wr::local_invalidate(3, region_->rkey()));
  EXPECT_TRUE(done.ok());
  EXPECT_EQ(done.opcode, Kind::kLocalInv);
  const Sge sge = a_->sge(0, 8);
  EXPECT_EQ(execute(wr::write(2, one(sge), {0x1000, region_->rkey()})).status, Status::kRemoteAccess);
}

TEST_F(FastRegister, send_with_invalidate_voids_the_peers_key_before_the_receive_is_seen) {
  must(region_->set_page_list(pages_->pages().first(1)));
  EXPECT_TRUE(map(0x1000, 64).ok());
  ASSERT_TRUE(b_->recv(9, 0, 8).ok());
  const Sge sge = a_->sge(0, 8);
  EXPECT_TRUE(execute(wr::send_inv(1, one(sge), region_->rkey())).ok());
  const WorkCompletion got = await_one(*b_->recv_cq);
  EXPECT_NE(got.flags & abi::kWcWithInvalidate, 0u);
  EXPECT_EQ(got.invalidated, region_->rkey());
  EXPECT_EQ(execute(wr::write(2, one(sge), {0x1000, region_->rkey()})).status, Status::kRemoteAccess);
}

TEST_F(FastRegister, more_pages_than_the_region_has_room_for) {
  auto many = must(device(1).ram().allocate(20 * 4096));
  must(region_->set_page_list(many->pages()));
  EXPECT_EQ(map(0x1000, 20 * 4096).status, Status::kLocalQpOperation);
}

TEST_F(FastRegister, pages_that_are_no_memory) {
  const driver::GuestPhys nowhere{0x5000};
  must(region_->set_page_list(std::span(&nowhere, 1)));
  EXPECT_EQ(map(0x1000, 64).status, Status::kLocalQpOperation);
}

TEST_F(FastRegister, a_length_beyond_the_pages) {
  must(region_->set_page_list(pages_->pages().first(2)));
  EXPECT_EQ(map(0x1800, 8192).status, Status::kLocalQpOperation);
}

TEST_F(FastRegister, invalidating_what_is_not_there_or_not_fast) {
  EXPECT_EQ(on_b(wr::local_invalidate(3, 0x7f00)).status, Status::kLocalQpOperation);
}

TEST_F(FastRegister, sends_with_invalidate_of_a_user_region_fail) {
  ASSERT_TRUE(b_->recv(9, 0, 8).ok());
  const Sge sge = a_->sge(0, 8);
  EXPECT_FALSE(execute(wr::send_inv(1, one(sge), b_->mr->rkey())).ok());
}

}  // namespace
}  // namespace pvrdma::test
