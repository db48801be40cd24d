#include "transport/hca/check.h"

#include "support/manual_clock.h"
#include "transport/hca/hca_fixture.h"

namespace pvrdma::transport::hca {
namespace {

class CheckTest : public testing::Test {
 protected:
  CheckTest() { network_.set_delay(std::chrono::microseconds(5)); }
  ~CheckTest() override {
    EXPECT_EQ(network_.crimes(), 0U);
    EXPECT_EQ(network_.objects(), 0U);
  }
  Result<HcaCheck> check(const NicLimits& limits) {
    network_.add("mlx5_0", limits, {link_local(1)});
    return check();
  }
  Result<HcaCheck> check() {
    return check_nic(network_.open("mlx5_0", nobody_).value(),
                     {.memory_mib = 1, .time = std::chrono::milliseconds(10)}, clock_, [this] {
                       clock_.advance(step_);
                       if (clock_.now() >= mended_at_) network_.cut(false);
                       network_.run(clock_.now());
                     });
  }

  struct Nobody final : NicUser {
    void on_news(News) override {}
  } nobody_;
  test::ManualClock clock_;
  FakeNetwork network_{3, clock_};
  Duration step_ = std::chrono::microseconds(1);
  Instant mended_at_ = Instant::never();  // a cut network carries packets again
};

TEST_F(CheckTest, SaysWhatTheDeviceCan) {
  const auto found = check(kE810);
  ASSERT_TRUE(found) << found.error().message;
  EXPECT_EQ(found->device, "mlx5_0");
  EXPECT_EQ(found->max_qps, kE810.qps);
  EXPECT_EQ(found->mtu, 1024U);
  EXPECT_EQ(found->memory_mib, 1U);
  EXPECT_EQ(found->gid, link_local(1).to_string());
  EXPECT_EQ(found->gids, std::vector{found->gid});
  EXPECT_GT(found->sends, 100'000U);
  EXPECT_GT(found->send_bytes, 100'000U * 4096);
  EXPECT_GT(found->read_bytes, 100'000U * 4096);
  EXPECT_GT(found->long_read_bytes, found->read_bytes);
  EXPECT_GT(found->read_ns, 0U);
  EXPECT_LT(found->read_ns, 10'000U);
}

TEST_F(CheckTest, SaysWhyItCannot) {
  network_.add("mlx5_0", kE810, {});
  EXPECT_EQ(check().error().message, "RDMA device mlx5_0 has no GID of RoCE v2");
  network_.add("mlx5_0", kE810, {link_local(1)});
  network_.set_port("mlx5_0", false);
  EXPECT_EQ(check().error().message, "port 1 of RDMA device mlx5_0 is down");
  NicLimits small = kE810;
  small.work_requests = 8;
  EXPECT_FALSE(check(small));
  network_.cut(true);
  step_ = std::chrono::milliseconds(1);
  const auto cut = check(kE810);
  ASSERT_FALSE(cut);
  EXPECT_EQ(cut.error().message,
            "RDMA device mlx5_0: a work request failed: transport retry counter exceeded");
}

// As Soft-RoCE on a busy host, whose packets wait for a processor.
TEST_F(CheckTest, WaitsForADeviceThatIsLate) {
  network_.cut(true);
  step_ = std::chrono::milliseconds(1);
  mended_at_ = clock_.now() + std::chrono::seconds(3);
  const auto late = check(kE810);
  EXPECT_TRUE(late) << late.error().message;
}

// Tests the READs of the simulated NIC itself.
TEST_F(CheckTest, AReadNeedsAKeyThatPeersMayUse) {
  network_.add("mlx5_0", kE810, {link_local(1)});
  const auto nic = network_.open("mlx5_0", nobody_).value();
  struct User final : CqUser {
    void on_completions() override {}
  } user;
  std::array<std::byte, 64> source;
  source.fill(std::byte{7});
  std::array<std::byte, 64> target{};
  const auto local = nic->register_memory(target, RemoteAccess::kNone).value();
  for (const auto access : {RemoteAccess::kRead, RemoteAccess::kNone}) {
    const auto remote = nic->register_memory(source, access).value();
    const auto cq = nic->make_cq(8, user).value();
    const auto a = nic->make_qp(*cq, {.sends = 2, .receives = 2, .reads = 2}).value();
    const auto b = nic->make_qp(*cq, {.sends = 2, .receives = 2, .reads = 2}).value();
    ASSERT_TRUE(a->connect(
        {.own = link_local(1), .peer = link_local(1), .peer_qpn = b->qpn(), .mtu = 1024, .reads = 2}));
    ASSERT_TRUE(b->connect(
        {.own = link_local(1), .peer = link_local(1), .peer_qpn = a->qpn(), .mtu = 1024, .reads = 2}));
    target.fill(std::byte{0});
    ASSERT_TRUE(a->post_read(5, {target.data(), 64, local->lkey()},
                             reinterpret_cast<std::uintptr_t>(source.data()), remote->rkey()));
    clock_.advance(std::chrono::milliseconds(1));
    network_.run(clock_.now());
    std::array<NicCompletion, 4> found;
    ASSERT_EQ(cq->poll(found), 1U);
    EXPECT_EQ(found[0].id, 5U);
    EXPECT_EQ(found[0].trouble.empty(), access == RemoteAccess::kRead);
    EXPECT_EQ(target == source, access == RemoteAccess::kRead);
  }
}

}  // namespace
}  // namespace pvrdma::transport::hca
