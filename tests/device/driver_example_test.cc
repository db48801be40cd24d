// Builds and runs the example of driver/driver.h, which shows how a process uses an adapter.
#include <cstring>

#include "device_test.h"

namespace pvrdma::test {
namespace {

using namespace pvrdma::driver;  // NOLINT: the example reads as a user's program

class DriverExample : public DeviceTest {};

TEST_F(DriverExample, writes_into_a_peers_memory) {
  RcEndpoint peer(device(1), gid_of(1));
  const abi::Gid gid = gid_of(0);

  auto bus = VfioUserBus::connect(host_.socket_path(0));
  ASSERT_TRUE(bus);
  auto device = Device::open(std::move(*bus));
  ASSERT_TRUE(device);
  ASSERT_TRUE((*device)->bind_gid(0, gid));
  {
    auto pd = ProtectionDomain::create((*device)->kernel());
    auto cq = CompletionQueue::create((*device)->kernel(), 256);
    ASSERT_TRUE(pd && cq);
    auto qp = QueuePair::create(**pd, {.send_cq = cq->get(), .recv_cq = cq->get()});
    auto buffer = (*device)->ram().allocate(65536);
    ASSERT_TRUE(qp && buffer);
    auto region = MemoryRegion::of_buffer(**pd, **buffer, abi::kAccessLocalWrite | abi::kAccessRemoteWrite);
    ASSERT_TRUE(region);

    ASSERT_TRUE((*qp)->to_init({.access = abi::kAccessRemoteWrite}));
    ASSERT_TRUE(peer.connect_to(gid, (*qp)->qpn(), {.first_psn = 0}));
    ASSERT_TRUE((*qp)->to_rtr({.dest_qpn = peer.qp->qpn(), .route = {.dgid = peer.gid}}));
    ASSERT_TRUE((*qp)->to_rts(RtsAttributes{}));

    std::memset((*buffer)->data(), 0x77, 65536);
    const Sge sge = (*region)->sge(0, 65536);
    ASSERT_TRUE((*qp)->post_send(wr::write(1, std::span(&sge, 1), peer.remote())).ok());
    WorkCompletion done;
    while ((*cq)->poll(std::span(&done, 1)) == 0) {
    }
    EXPECT_TRUE(done.ok());
    EXPECT_EQ(done.wr_id, 1u);
    EXPECT_EQ(peer.bytes()[65535], std::byte{0x77});
  }
}

}  // namespace
}  // namespace pvrdma::test
