// Every allocation and system call of the control plane's threads fails once, and some fail several times.
// The daemon survives. A request is answered, refused or dropped, and a refused request succeeds when it is
// repeated.
#include <gtest/gtest.h>
#include <set>

#include "exhaustion/exhaustion_fixture.h"
#include "exhaustion/guest.h"

namespace pvrdma::test {
namespace {

constexpr std::uint64_t kSome = 8;
constexpr Duration kGuard = std::chrono::seconds(30);  // a hang guard

constexpr std::uint32_t bits(Thread thread) {
  return static_cast<std::uint32_t>(thread);
}

class ControlExhaustion : public Exhaustion {
 protected:
  ControlExhaustion() : Exhaustion(DaemonProcess::Cluster::kMember) {}

  // Valid results without memory for a connection, a request or the store.
  static bool is_answer(int status) { return std::set({0, 200, 500, 503}).contains(status); }

  // Calls `effort` until the request has this status.
  bool comes_to(
      int status, const std::string& path, const std::function<void()>& effort = [] {}) {
    const Instant deadline = Instant::now() + kGuard;
    while (daemon_.ask_status(path) != status) {
      if (Instant::now() > deadline) return false;
      effort();
      ::usleep(2'000);
    }
    return true;
  }

  // The status when there is memory again. The daemon retries a failed store twice a second.
  int answer_afterwards(const std::string& method, const std::string& path, const std::string& body = "") {
    const Instant deadline = Instant::now() + kGuard;
    for (;;) {
      const int status = daemon_.tell(method, path, body);
      if (status == 200 || status == 404 || status == 409 || Instant::now() > deadline) return status;
      ::usleep(20'000);
    }
  }
};

TEST_F(ControlExhaustion, ARequestIsAnsweredRefusedOrDropped) {
  const std::string vmks = "/v1/hosts/self/vmks";
  const std::string vmk = R"({"name": "vmk1", "address": "10.0.0.1"})";
  ASSERT_EQ(daemon_.tell("POST", vmks, vmk), 200);
  ASSERT_EQ(daemon_.tell("DELETE", vmks + "/vmk1"), 200);
  fail_at_every_site(
      [&] {
        EXPECT_TRUE(is_answer(daemon_.ask_status("/v1/adapters/A")));
        EXPECT_TRUE(is_answer(daemon_.tell("PUT", "/v1/adapters/A/link", R"({"up": true})")));
        const int added = daemon_.tell("POST", vmks, vmk);
        EXPECT_TRUE(is_answer(added)) << added;
        daemon_.control().armed = 0;
        if (added != 200) {
          const int again = answer_afterwards("POST", vmks, vmk);
          EXPECT_TRUE(again == 200 || again == 409) << again << " after " << added;
        }
        EXPECT_EQ(answer_afterwards("DELETE", vmks + "/vmk1"), 200);
      },
      {.threads = bits(Thread::kApi), .count = kSome});
  EXPECT_EQ(daemon_.stop(), 0) << daemon_.logged();
}

// A VM of the cluster: its adapter is made, used and removed.
class VmExhaustion : public ControlExhaustion {
 protected:
  void SetUp() override {
    ASSERT_EQ(daemon_.tell("POST", "/v1/dvs", R"({"name": "dvs1"})"), 200);
    ASSERT_EQ(daemon_.tell("PUT", "/v1/dvs/dvs1/portgroups/pg1", R"({"vlan": 7})"), 200);
    ASSERT_EQ(daemon_.tell("PUT", "/v1/dvs/dvs1/hosts/self", "{}"), 200);
  }

  void vm_comes_and_goes() {
    const std::string vm =
        R"({"name": "C", "hardware_version": 18, "memory_mib": 64, "memory_reserved_mib": 64,
            "adapter": {"portgroup": "pg1"}})";
    // The VM's last life may still seem to go on for a while.
    ASSERT_TRUE(comes_to(200, "/v1/vms/C", [&] { daemon_.tell("POST", "/v1/vms", vm); }));
    ASSERT_TRUE(comes_to(200, "/v1/adapters/C"));
    Guest guest(daemon_, "C.sock");
    guest.live();
    EXPECT_FALSE(guest.hung()) << guest.sentence();
    ASSERT_TRUE(comes_to(404, "/v1/vms/C", [&] { daemon_.tell("DELETE", "/v1/vms/C"); }));
    ASSERT_TRUE(comes_to(404, "/v1/adapters/C"));
  }

  // Timers are among the sites, so the Nth site differs from run to run.
  void fail_here_and_there(const Failing& failing, std::uint64_t lives) {
    run(
        0, 0, [this] { vm_comes_and_goes(); }, failing);
    const std::uint64_t sites = daemon_.control().sites;
    ASSERT_GT(sites, 0U);
    std::uint64_t failed = 0;
    for (std::uint64_t site = 1; site <= sites; site += 1 + sites / lives) {
      SCOPED_TRACE(fmt::format("site {} of {}", site, sites));
      run(
          site, failing.count, [this] { vm_comes_and_goes(); }, failing);
      ASSERT_TRUE(daemon_.is_alive()) << where();
      ASSERT_EQ(bystander_.trouble(), "") << where();
      if (HasFailure()) FAIL() << where();
      failed += daemon_.control().failed;
    }
    EXPECT_GT(failed, 0U);
  }
  void TearDown() override { EXPECT_EQ(daemon_.stop(), 0) << daemon_.logged(); }
};

// The threads of the membership, the live records and the store.
TEST_F(VmExhaustion, TheClustersThreadsGoOnWhenThereIsMemoryAgain) {
  fail_here_and_there(
      {.threads = bits(Thread::kCluster) | bits(Thread::kPlane) | bits(Thread::kStore), .count = kSome}, 60);
}

TEST_F(VmExhaustion, TheShardRefusesAndGoesOn) {
  fail_here_and_there({.count = 1}, 150);
  fail_here_and_there({.count = kSome}, 50);
}

}  // namespace
}  // namespace pvrdma::test
