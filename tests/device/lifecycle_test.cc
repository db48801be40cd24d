// Destroying, resetting and disconnecting while data moves; reconnection; no descriptor leaks (docs/device.md
// 7.4, 8.7).
#include <thread>

#include "device_test.h"
#include "support/open_fds.h"

namespace pvrdma::test {
namespace {

using namespace std::chrono_literals;

class Lifecycle : public DeviceTest {
 protected:
  // Fills a's send queue with large writes and reads.
  static void load(RcEndpoint& a, const RcEndpoint& b) {
    const Sge sge = a.sge(0, 1 << 20);
    for (std::uint64_t i = 0; i < 32; ++i) {
      ASSERT_TRUE(
          a.qp->post_send(i % 2 == 0 ? wr::write(i, one(sge), b.remote()) : wr::read(i, one(sge), b.remote()))
              .ok());
    }
  }
  static EndpointOptions large() { return {.buffer_bytes = 1 << 20}; }
  static ConnectOptions impatient() { return {.timeout = 8, .retry_cnt = 1}; }
};

TEST_F(Lifecycle, a_qp_destroyed_under_load_writes_no_more_completions) {
  for (int round = 0; round < 10; ++round) {
    RcEndpoint a(device(0), gid_of(0), large());
    RcEndpoint b(device(1), gid_of(1), large());
    must(connect(a, b));
    load(a, b);
    must(a.qp->destroy());
    const std::uint32_t tail = a.send_cq->ring().state().tail(std::memory_order_acquire);
    EXPECT_TRUE(is_empty(*a.send_cq));
    std::this_thread::sleep_for(2ms);
    EXPECT_EQ(a.send_cq->ring().state().tail(std::memory_order_acquire), tail);
  }
}

TEST_F(Lifecycle, the_responders_qp_destroyed_under_load) {
  RcEndpoint a(device(0), gid_of(0), large());
  RcEndpoint b(device(1), gid_of(1), large());
  must(connect(a, b, impatient()));
  load(a, b);
  must(b.qp->destroy());
  const auto done = await(*a.send_cq, 32);
  std::size_t failed = 0;
  for (const WorkCompletion& each : done) {
    if (each.status == Status::kRetryExceeded) ++failed;
    EXPECT_TRUE(each.ok() || each.status == Status::kRetryExceeded || each.status == Status::kFlushed);
  }
  EXPECT_LE(failed, 1u);
}

TEST_F(Lifecycle, a_region_deregistered_under_load) {
  RcEndpoint a(device(0), gid_of(0), large());
  RcEndpoint b(device(1), gid_of(1), large());
  must(connect(a, b));
  load(a, b);
  must(b.mr->destroy());
  for (const WorkCompletion& each : await(*a.send_cq, 32)) {
    EXPECT_TRUE(each.ok() || each.status == Status::kRemoteAccess || each.status == Status::kFlushed)
        << static_cast<int>(each.status);
  }
}

TEST_F(Lifecycle, a_driver_reset_under_load) {
  for (int round = 0; round < 5; ++round) {
    RcEndpoint b(device(1), gid_of(1), large());
    {
      RcEndpoint a(device(0), gid_of(0), large());
      must(connect(a, b, impatient()));
      load(a, b);
      load(b, a);
      must(devices_[0]->close());  // CTL RESET; destroying the driver's objects fails afterwards
    }
    const auto info = host_.info(0);
    EXPECT_EQ(info.objects.qps + info.objects.mrs + info.objects.cqs, 0u);
    devices_[0].reset();
    for (const WorkCompletion& each : await(*b.send_cq, 32)) {
      EXPECT_TRUE(each.ok() || each.status == Status::kRetryExceeded || each.status == Status::kFlushed);
    }
    EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  }
}

TEST_F(Lifecycle, a_vfio_reset_under_load) {
  RcEndpoint b(device(1), gid_of(1), large());
  RcEndpoint a(device(0), gid_of(0), large());
  must(connect(a, b, impatient()));
  load(b, a);
  must(device(0).bus().reset());
  EXPECT_EQ(host_.info(0).objects.qps, 0u);
  for (const WorkCompletion& each : await(*b.send_cq, 32)) {
    EXPECT_TRUE(each.ok() || each.status == Status::kRetryExceeded || each.status == Status::kFlushed);
  }
  expect_tidy_ = false;  // the reset has destroyed a's objects
}

// kill -9 of one VM: its socket closes, its peer fails with an error, and the VM comes back and reconnects.
TEST_F(Lifecycle, a_vm_killed_under_load_comes_back) {
  RcEndpoint b(device(1), gid_of(1), large());
  auto path = host_.socket_path(0);
  for (int round = 0; round < 3; ++round) {
    auto bus = must(driver::VfioUserBus::connect(path));
    driver::VfioUserBus& wire = *bus;
    auto doomed = must(driver::Device::open(std::move(bus)));
    must(doomed->bind_gid(0, gid_of(0)));
    {
      RcEndpoint a(*doomed, gid_of(0), large());
      must(connect(a, b, impatient()));
      load(a, b);
      load(b, a);
      wire.disconnect();
      for (const WorkCompletion& each : await(*b.send_cq, 32)) {
        EXPECT_TRUE(each.ok() || each.status == Status::kRetryExceeded || each.status == Status::kFlushed);
      }
    }
    doomed.reset();
    EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
    const auto info = host_.info(0);
    EXPECT_EQ(info.objects.qps + info.objects.mrs + info.objects.pds, 0u);
    EXPECT_EQ(info.dma_map_count, 0u);
    EXPECT_TRUE(info.gids.empty());
    must(b.qp->to_reset());
  }
}

TEST_F(Lifecycle, attaching_a_hundred_times_leaves_no_descriptor_behind) {
  { RcEndpoint warm_up(device(0), gid_of(0)); }
  devices_[0].reset();
  ASSERT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  ASSERT_TRUE(eventually([&] { return host_.reaper().busy_queues() == 0; }));
  const std::size_t before = count_open_fds();
  for (int i = 0; i < 100; ++i) {
    { RcEndpoint end(device(0), gid_of(0)); }
    devices_[0].reset();
    ASSERT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  }
  EXPECT_TRUE(eventually([&] { return count_open_fds() == before; }))
      << count_open_fds() << ", before " << before;
}

TEST_F(Lifecycle, objects_made_and_destroyed_a_thousand_times) {
  for (int i = 0; i < 1000; ++i) {
    RcEndpoint end(device(0), gid_of(0), {.buffer_bytes = 4096});
    ASSERT_LT(end.qp->handle(), device(0).caps().max_qp);
    ASSERT_LT(end.send_cq->handle(), device(0).caps().max_cq);
  }
  EXPECT_EQ(host_.info(0).objects.qps, 0u);
}

}  // namespace
}  // namespace pvrdma::test
