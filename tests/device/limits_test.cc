// Resource limits: each is enforced, and after a refusal there is room again when one object is destroyed
// (docs/device.md 2.3, 9.3).
#include "device/capabilities.h"
#include "device_test.h"

namespace pvrdma::test {
namespace {

TestbenchOptions small_adapter() {
  verbs::Limits limits = device::limits_of(HardwareVersion::k18, Profile::kOpen);
  limits.max_context = 4;
  limits.max_pd = 3;
  limits.max_mr = 5;
  limits.max_cq = 6;
  limits.max_qp = 8;
  limits.max_srq = 2;
  limits.max_mr_bytes = 1 << 20;
  return {.limits = limits};
}

class Limits : public DeviceTest {
 protected:
  Limits() : DeviceTest(small_adapter()) {}

  // Makes objects until one is refused with ENOMEM, destroys one, and makes one more. Returns how many there
  // were.
  template <typename Make>
  static std::size_t fill(Make make) {
    std::vector<decltype(must(make()))> all;
    for (int i = 0; i < 100; ++i) {
      auto made = make();
      if (!made) {
        EXPECT_EQ(made.error().code, 12) << made.error().message;
        break;
      }
      all.push_back(std::move(*made));
    }
    const std::size_t count = all.size();
    all.erase(all.begin());
    EXPECT_TRUE(make());
    return count;
  }
};

TEST_F(Limits, protection_domains) {
  EXPECT_EQ(device(0).caps().max_pd, 3u);
  const std::size_t count = fill([&] { return driver::ProtectionDomain::create(device(0).kernel()); });
  EXPECT_LE(count, 3u);
  EXPECT_GE(count, 2u);  // handle 0 may stay unused
}

TEST_F(Limits, user_contexts) {
  EXPECT_EQ(device(0).caps().max_uar, 4u);
  // Page 0 belongs to the kernel.
  EXPECT_EQ(fill([&] { return driver::Context::create_user(device(0)); }), 3u);
}

TEST_F(Limits, completion_queues) {
  const std::size_t count = fill([&] { return driver::CompletionQueue::create(device(0).kernel(), 4); });
  EXPECT_LE(count, 6u);
  EXPECT_GE(count, 5u);
}

TEST_F(Limits, regions_queue_pairs_and_shared_receive_queues) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto cq = must(driver::CompletionQueue::create(device(0).kernel(), 4));
  auto buffer = must(device(0).ram().allocate(4096));
  EXPECT_LE(fill([&] { return driver::MemoryRegion::of_buffer(*pd, *buffer, 1); }), 5u);
  const std::size_t qps = fill([&] {
    return driver::QueuePair::create(*pd, {.send_cq = cq.get(), .recv_cq = cq.get(), .max_send_wr = 1});
  });
  EXPECT_LE(qps, 8u);
  EXPECT_GE(qps, 6u);
  EXPECT_LE(fill([&] { return driver::SharedReceiveQueue::create(*pd); }), 2u);
}

TEST_F(Limits, a_region_larger_than_allowed) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto buffer = must(device(0).ram().allocate((1 << 20) + 1));
  EXPECT_EQ(device(0).caps().max_mr_size, 1u << 20);
  EXPECT_FALSE(driver::MemoryRegion::of_buffer(*pd, *buffer, 1));
  EXPECT_TRUE(driver::MemoryRegion::of_buffer(*pd, *buffer, 1, 0, 1 << 20));
}

class EsxiLimits : public DeviceTest {
 protected:
  EsxiLimits() : DeviceTest({.profile = Profile::kEsxi}) {}
};

TEST_F(EsxiLimits, three_datagram_qps) {
  auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  auto cq = must(driver::CompletionQueue::create(device(0).kernel(), 16));
  std::vector<std::unique_ptr<driver::QueuePair>> qps;
  const driver::QpOptions datagram{.type = abi::QpType::kUd, .send_cq = cq.get(), .recv_cq = cq.get()};
  for (int i = 0; i < 3; ++i) qps.push_back(must(driver::QueuePair::create(*pd, datagram)));
  EXPECT_FALSE(driver::QueuePair::create(*pd, datagram));
}

}  // namespace
}  // namespace pvrdma::test
