// Every allocation and system call that the shard makes for a guest fails once, and then fails from that site
// on. The daemon survives. The guest's command is refused or its connection dropped, and a refused command
// succeeds when it is repeated. Nothing is left behind, and another guest notices nothing.
#include <fmt/core.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include "exhaustion/exhaustion_fixture.h"
#include "exhaustion/guest.h"
#include "keep/fake_manager.h"

namespace pvrdma::test {
namespace {

struct Manager {
  keep::FakeManager manager{::testing::TempDir() + fmt::format("exhaustion_{}", ::getpid()), 1000};
};

// The same for a daemon whose adapters are kept for its next process.
class KeptExhaustion : private Manager, public Exhaustion {};

// The shard writes down what is kept 50 ms after a change, perhaps in the middle of the script.
TEST_F(KeptExhaustion, AGuestIsRefusedOrDroppedAndNobodyElseNotices) {
  Guest warm_up(daemon_);
  ASSERT_TRUE(warm_up.live()) << warm_up.sentence();
  const auto live = [&] {
    Guest guest(daemon_);
    const bool done = guest.live();
    EXPECT_FALSE(guest.hung()) << guest.sentence();
    if (daemon_.control().failed == 0) {
      EXPECT_TRUE(done) << guest.sentence();
    }
  };
  fail_at_every_site(live, {.step = 5, .certain = 60});
  Guest after(daemon_);
  EXPECT_TRUE(after.live()) << after.sentence();
  EXPECT_EQ(daemon_.stop(), 0) << daemon_.logged();
}

TEST_F(Exhaustion, AGuestIsRefusedOrDroppedAndNobodyElseNotices) {
  Guest warm_up(daemon_);
  ASSERT_TRUE(warm_up.live()) << warm_up.sentence();
  fail_at_every_site([&] {
    Guest guest(daemon_);
    const bool done = guest.live();
    EXPECT_FALSE(guest.hung()) << guest.sentence();
    if (daemon_.control().failed == 0) {
      EXPECT_TRUE(done) << guest.sentence();
      EXPECT_EQ(guest.refusals(), 0) << guest.sentence();
    }
    // One failure costs one command or the connection. A refused command succeeds when it is repeated.
    if (daemon_.control().failed == 1) {
      EXPECT_LE(guest.refusals(), 1) << guest.sentence();
    }
  });
  Guest after(daemon_);
  EXPECT_TRUE(after.live()) << after.sentence();
  EXPECT_EQ(daemon_.stop(), 0) << daemon_.logged();
}

// A process limit of the running daemon.
class Limit {
 public:
  Limit(const DaemonProcess& daemon, decltype(RLIMIT_AS) what, rlim_t most) : daemon_(daemon), what_(what) {
    if (::prlimit(daemon.pid(), what, nullptr, &before_) != 0) throw std::runtime_error("prlimit");
    const rlimit now{most, before_.rlim_max};
    ::prlimit(daemon.pid(), what, &now, nullptr);
  }
  ~Limit() { ::prlimit(daemon_.pid(), what_, &before_, nullptr); }
  Limit(const Limit&) = delete;
  Limit& operator=(const Limit&) = delete;

 private:
  const DaemonProcess& daemon_;
  const decltype(RLIMIT_AS) what_;
  rlimit before_{};
};

TEST_F(Exhaustion, ASmallAddressSpaceIsAGuestsTrouble) {
  Guest(daemon_).live();
  const Before before = look();
  const std::size_t now = daemon_.address_space_bytes();
  int refused = 0;
  for (const std::size_t more : {0, 4 << 10, 64 << 10, 1 << 20, 3 << 20, 5 << 20, 1 << 30}) {
    SCOPED_TRACE(fmt::format("{} bytes more", more));
    Guest guest(daemon_);
    {
      const Limit limit(daemon_, RLIMIT_AS, now + more);
      const bool refused_now = !guest.live();
      if (refused_now) std::printf("%zu bytes more: %s\n", more, guest.sentence().c_str());
      refused += refused_now ? 1 : 0;
      EXPECT_FALSE(guest.hung()) << guest.sentence();
      ASSERT_TRUE(daemon_.is_alive()) << daemon_.logged();
      ASSERT_EQ(bystander_.trouble_as_a_guest(), "") << daemon_.logged();
    }
    ASSERT_EQ(bystander_.trouble(), "") << daemon_.logged();
    ASSERT_EQ(left_behind(before), "") << daemon_.logged();
  }
  EXPECT_GT(refused, 0) << "the limit was none";
  EXPECT_LT(refused, 7) << "enough is enough";
  Guest after(daemon_);
  EXPECT_TRUE(after.live()) << after.sentence();
}

// Without a free descriptor, a new client waits until there is one. A connected client is refused or dropped.
TEST_F(Exhaustion, FewDescriptorsAreAGuestsTrouble) {
  Guest(daemon_).live();
  const Before before = look();
  int did_not_serve = 0;
  for (const std::size_t more : {0, 1, 2, 3, 4, 6, 8, 12, 100}) {
    SCOPED_TRACE(fmt::format("{} descriptors more", more));
    // A listener that found no descriptor rests for a second, and a later client would wait for the end of
    // that pause.
    Guest first(daemon_);
    ASSERT_TRUE(first.live()) << first.sentence();
    ASSERT_EQ(left_behind(before), "") << daemon_.logged();
    {
      const Limit limit(daemon_, RLIMIT_NOFILE, before.descriptors + more);
      Guest guest(daemon_, std::chrono::milliseconds(200));
      const bool served = guest.live();
      std::printf("%zu descriptors more: %s\n", more, served ? "served" : guest.sentence().c_str());
      did_not_serve += served ? 0 : 1;
      ASSERT_TRUE(daemon_.is_alive()) << daemon_.logged();
      ASSERT_EQ(bystander_.trouble_as_a_guest(), "") << daemon_.logged();
    }
    ASSERT_EQ(bystander_.trouble(), "") << daemon_.logged();
    ASSERT_EQ(left_behind(before), "") << daemon_.logged();
  }
  EXPECT_GT(did_not_serve, 0) << "the limit was none";
  EXPECT_LT(did_not_serve, 9) << "enough is enough";
  Guest after(daemon_);
  EXPECT_TRUE(after.live()) << after.sentence();
}

// Like reaching vm.max_map_count. That sysctl concerns the whole machine, so here the library makes mappings
// fail.
TEST_F(Exhaustion, NoMappingIsAGuestsTrouble) {
  const Before before = look();
  Guest guest(daemon_);
  run(1, kFromThenOn, [&] { EXPECT_FALSE(guest.live()); },
      {.kinds = static_cast<std::uint32_t>(Call::kMapping)});
  EXPECT_GT(daemon_.control().failed, 0U);
  EXPECT_FALSE(guest.hung()) << guest.sentence();
  EXPECT_EQ(bystander_.trouble(), "") << daemon_.logged();
  EXPECT_EQ(left_behind(before), "") << daemon_.logged();
  EXPECT_TRUE(guest.live()) << guest.sentence();
}

TEST_F(Exhaustion, AQuestionOfTheApiIsRefused) {
  daemon_.ask("/v1/stats");
  fail_at_every_site([&] {
    for (const char* path : {"/v1/adapters", "/v1/qps", "/v1/stats"}) {
      const int status = daemon_.ask_status(path);
      EXPECT_TRUE(status == 200 || status == 503) << path << " " << status;
    }
  });
  EXPECT_EQ(daemon_.ask_status("/v1/stats"), 200);
}

}  // namespace
}  // namespace pvrdma::test
