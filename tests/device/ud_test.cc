// Datagrams: UD and GSI QPs (docs/device.md 6.1, 6.3, 7.3).
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

constexpr std::uint32_t kQkey = 0x11223344;
constexpr std::uint32_t kGsiQkey = 0x80010000;

// A datagram QP in RTS with its own memory.
struct DatagramEnd {
  DatagramEnd(driver::Device& device, abi::QpType type, std::uint32_t qkey,
              driver::Context* context = nullptr)
      : pd(must(driver::ProtectionDomain::create(context != nullptr ? *context : device.kernel()))),
        cq(must(driver::CompletionQueue::create(pd->context(), 64))),
        buffer(must(device.ram().allocate(16384))),
        mr(must(driver::MemoryRegion::of_buffer(*pd, *buffer, abi::kAccessLocalWrite))),
        qp(must(driver::QueuePair::create(*pd, {.type = type,
                                                .send_cq = cq.get(),
                                                .recv_cq = cq.get(),
                                                .max_send_sge = 4,
                                                .max_recv_sge = 4}))) {
    must(qp->to_init({.qkey = qkey}));
    must(qp->to_rtr());
    must(qp->to_rts(0));
  }
  driver::Destination to(const abi::Gid& gid, std::uint32_t qpn, std::uint32_t qkey) const {
    return {.qpn = qpn, .qkey = qkey, .av = driver::address_vector(*pd, {.dgid = gid, .traffic_class = 7})};
  }
  bool recv(std::uint64_t wr_id, std::size_t offset, std::uint32_t bytes) const {
    const Sge sge = mr->sge(offset, bytes);
    return qp->post_recv(driver::ReceiveRequest{wr_id, one(sge)}).ok();
  }
  WorkCompletion send(const driver::Destination& destination, std::size_t offset, std::uint32_t bytes) const {
    const Sge sge = mr->sge(offset, bytes);
    EXPECT_TRUE(qp->post_send(wr::send_to(99, one(sge), destination)).ok());
    return await_one(*cq);
  }

  std::unique_ptr<driver::ProtectionDomain> pd;
  std::unique_ptr<driver::CompletionQueue> cq;
  std::unique_ptr<driver::Buffer> buffer;
  std::unique_ptr<driver::MemoryRegion> mr;
  std::unique_ptr<driver::QueuePair> qp;
};

class Datagrams : public DeviceTest {};

TEST_F(Datagrams, arrive_behind_a_grh_with_their_senders_number) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const DatagramEnd b(device(1), abi::QpType::kUd, kQkey);
  ASSERT_TRUE(b.recv(5, 0, 1064));
  std::memset(a.buffer->data(), 0x5c, 1024);
  EXPECT_TRUE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey), 0, 1024).ok());
  const WorkCompletion got = await_one(*b.cq);
  EXPECT_TRUE(got.ok());
  EXPECT_EQ(got.wr_id, 5u);
  EXPECT_EQ(got.byte_len, 1064u);
  EXPECT_EQ(got.src_qpn, a.qp->qpn());
  EXPECT_NE(got.flags & abi::kWcGrh, 0u);
  EXPECT_EQ(got.network, abi::NetworkHdrType::kIpv4);
  const auto* grh = reinterpret_cast<const std::uint8_t*>(b.buffer->data());
  EXPECT_EQ(grh[20], 0x45);  // an IPv4 header at 20
  EXPECT_EQ(grh[32], 192);   // from 192.168.11.51
  EXPECT_EQ(grh[35], 51);
  EXPECT_EQ(grh[39], 52);
  std::uint32_t sum = 0;
  for (int i = 20; i < 40; i += 2) sum += static_cast<std::uint32_t>(grh[i]) << 8 | grh[i + 1];
  while (sum >> 16) sum = (sum & 0xffff) + (sum >> 16);
  EXPECT_EQ(sum, 0xffffu);
  EXPECT_EQ(b.buffer->data()[40], std::byte{0x5c});
  EXPECT_EQ(b.buffer->data()[1063], std::byte{0x5c});
}

TEST_F(Datagrams, carry_immediate_data) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const DatagramEnd b(device(1), abi::QpType::kUd, kQkey);
  ASSERT_TRUE(b.recv(5, 0, 100));
  const Sge sge = a.mr->sge(0, 4);
  ASSERT_TRUE(
      a.qp->post_send(wr::send_imm_to(1, one(sge), a.to(gid_of(1), b.qp->qpn(), kQkey), 0xfeed)).ok());
  EXPECT_EQ(await_one(*b.cq).immediate, 0xfeedu);
  EXPECT_TRUE(await_one(*a.cq).ok());
}

TEST_F(Datagrams, to_nobody_or_with_a_wrong_qkey_vanish) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const DatagramEnd b(device(1), abi::QpType::kUd, kQkey);
  ASSERT_TRUE(b.recv(5, 0, 200));
  EXPECT_TRUE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey + 1), 0, 8).ok());
  EXPECT_TRUE(a.send(a.to(gid_of(1), 0xfffff, kQkey), 0, 8).ok());
  EXPECT_TRUE(a.send(a.to(gid_of(99), b.qp->qpn(), kQkey), 0, 8).ok());
  EXPECT_TRUE(is_empty(*b.cq));
  EXPECT_EQ(host_.info(1).verbs_counters.ud_dropped_qkey, 1u);
  EXPECT_TRUE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey), 0, 8).ok());
  EXPECT_EQ(await_one(*b.cq).wr_id, 5u);
}

TEST_F(Datagrams, without_a_receive_are_dropped) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const DatagramEnd b(device(1), abi::QpType::kUd, kQkey);
  EXPECT_TRUE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey), 0, 8).ok());
  EXPECT_EQ(host_.info(1).verbs_counters.ud_dropped_no_receive, 1u);
}

TEST_F(Datagrams, longer_than_the_mtu_fail_here) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const WorkCompletion done = a.send(a.to(gid_of(1), 5, kQkey), 0, 1025);
  EXPECT_FALSE(done.ok());
}

class JumboDatagrams : public DeviceTest {
 protected:
  JumboDatagrams() : DeviceTest({.mtu = 9000}) {}
};

TEST_F(JumboDatagrams, are_as_long_as_the_network_allows) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const DatagramEnd b(device(1), abi::QpType::kUd, kQkey);
  ASSERT_TRUE(b.recv(5, 0, 40 + 4096));
  std::memset(a.buffer->data(), 0x5c, 4096);
  EXPECT_TRUE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey), 0, 4096).ok());
  EXPECT_EQ(await_one(*b.cq).byte_len, 40u + 4096u);
  EXPECT_EQ(std::memcmp(a.buffer->data(), b.buffer->data() + 40, 4096), 0);
  EXPECT_FALSE(a.send(a.to(gid_of(1), b.qp->qpn(), kQkey), 0, 4097).ok());
}

TEST_F(Datagrams, gsi_qps_talk_to_gsi_qps) {
  const DatagramEnd a(device(0), abi::QpType::kGsi, kGsiQkey);
  const DatagramEnd b(device(1), abi::QpType::kGsi, kGsiQkey);
  ASSERT_TRUE(b.recv(5, 0, 40 + 256));
  EXPECT_TRUE(a.send(a.to(gid_of(1), 1, kGsiQkey), 0, 256).ok());
  const WorkCompletion got = await_one(*b.cq);
  EXPECT_EQ(got.src_qpn, 1u);
  EXPECT_EQ(got.byte_len, 296u);
  EXPECT_EQ(got.pkey_index, 0);
}

// A management QP takes as many datagrams as it has receives, whatever their sizes, and the rest is not
// affected.
TEST_F(Datagrams, a_flood_of_the_gsi_qp_is_bounded_by_its_receives) {
  constexpr std::uint64_t kReceives = 4;
  constexpr std::uint64_t kMads = 2000;
  const DatagramEnd a(device(0), abi::QpType::kGsi, kGsiQkey);
  const DatagramEnd b(device(1), abi::QpType::kGsi, kGsiQkey);
  for (std::uint64_t i = 0; i < kReceives; ++i) ASSERT_TRUE(b.recv(i, i * 296, 296));
  for (std::uint64_t i = 0; i < kMads; ++i) {
    const auto bytes = static_cast<std::uint32_t>(i % 2 == 0 ? 256 : i % 1024);  // MADs and other datagrams
    ASSERT_TRUE(a.send(a.to(gid_of(1), 1, kGsiQkey), 0, bytes).ok());
  }
  for (std::uint64_t i = 0; i < kReceives; ++i) EXPECT_EQ(await_one(*b.cq).wr_id, i);
  EXPECT_TRUE(is_empty(*b.cq));
  const auto counters = host_.info(1).verbs_counters;
  EXPECT_EQ(counters.ud_dropped_no_receive + counters.ud_dropped_length, kMads - kReceives);
}

TEST_F(Datagrams, a_users_privileged_qkey_is_replaced_by_the_qps) {
  auto user = must(driver::Context::create_user(device(0)));
  {
    const DatagramEnd a(device(0), abi::QpType::kUd, kQkey, user.get());
    const DatagramEnd gsi(device(1), abi::QpType::kGsi, kGsiQkey);
    ASSERT_TRUE(gsi.recv(5, 0, 296));
    EXPECT_TRUE(a.send(a.to(gid_of(1), 1, kGsiQkey), 0, 256).ok());
    EXPECT_TRUE(is_empty(*gsi.cq));
  }
}

TEST_F(Datagrams, only_sends_are_allowed) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  const Sge sge = a.mr->sge(0, 8);
  ASSERT_TRUE(a.qp->post_send(wr::write(1, one(sge), {a.mr->start(), a.mr->rkey()})).ok());
  EXPECT_EQ(await_one(*a.cq).status, Status::kLocalQpOperation);
}

TEST_F(Datagrams, from_a_gid_that_is_not_bound_fail_here) {
  const DatagramEnd a(device(0), abi::QpType::kUd, kQkey);
  driver::Destination destination = a.to(gid_of(1), 5, kQkey);
  destination.av.gid_index = 200;
  EXPECT_FALSE(a.send(destination, 0, 8).ok());
}

}  // namespace
}  // namespace pvrdma::test
