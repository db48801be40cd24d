// Exhaustion: the fixture for tests that make a daemon's calls fail. It has one daemon, which survives all
// failures, the guest A whose calls fail, and a bystander.
//
// A site is one call of the kinds that fail_nth.cc knows. The Nth site of a script is the same in each run,
// because a thread makes the calls in the order of the script's messages.
//
// Thread: the test's.
#pragma once

#include <fmt/core.h>
#include <functional>
#include <gtest/gtest.h>
#include <limits>

#include "exhaustion/bystander.h"
#include "exhaustion/daemon_process.h"

namespace pvrdma::test {

inline constexpr std::uint64_t kFromThenOn = std::numeric_limits<std::uint64_t>::max();
inline constexpr std::uint64_t kSparse = 17;

// Which calls fail, and how many in a row: all from a site on, or, where a thread waits for memory, enough
// that several of its attempts fail.
struct Failing {
  std::uint32_t threads = static_cast<std::uint32_t>(Thread::kShard);
  std::uint32_t kinds = kAllCalls;
  std::uint64_t count = kFromThenOn;
  std::uint64_t step = 1;      // the distance between tested sites
  std::uint64_t certain = 90;  // of 100 sites; the others wait for a timer and may not occur
};

class Exhaustion : public ::testing::Test {
 protected:
  explicit Exhaustion(DaemonProcess::Cluster cluster = DaemonProcess::Cluster::kNone)
      : daemon_(cluster), bystander_(daemon_) {}

  // Runs `script` while `count` calls fail, from the `first`-th on.
  void run(std::uint64_t first, std::uint64_t count, const std::function<void()>& script,
           const Failing& failing) {
    FailControl& control = daemon_.control();
    control.threads = failing.threads;
    control.sites = 0;
    control.failed = 0;
    control.kinds = failing.kinds;
    control.fail_at = first;
    control.fail_count = count;
    control.armed = 1;
    script();
    control.armed = 0;
  }

  // The daemon's state before the test.
  struct Before {
    std::size_t descriptors;
    std::size_t threads;
    nlohmann::json objects;
  };
  Before look() {
    return {daemon_.descriptors(), daemon_.threads(), daemon_.ask("/v1/adapters/A")["objects"]};
  }
  // Empty if nothing of guest A is left.
  std::string left_behind(const Before& before) {
    const Instant deadline = Instant::now() + std::chrono::seconds(10);
    std::string trouble;
    do {  // the daemon notices the end of a connection later, and the API's threads for clients have to end
      const Before now = look();
      trouble = now.objects != before.objects          ? "objects " + now.objects.dump()
                : now.descriptors > before.descriptors ? fmt::format("{} descriptors", now.descriptors)
                                                       : "";
      if (!trouble.empty()) ::usleep(1000);
    } while (!trouble.empty() && Instant::now() < deadline);
    return trouble;
  }

  std::string where() {
    return fmt::format("kind {} failed at\n{}log:\n{}", daemon_.control().failed_kind.load(),
                       daemon_.failed_site(), daemon_.logged());
  }

  // Runs `live` once for every site with one failure, and with failing.count failures (at each kSparse-th
  // site if that takes long). After each run it checks the daemon and the bystander.
  void fail_at_every_site(const std::function<void()>& live, Failing failing = {}) {
    run(0, 0, live, failing);
    const std::uint64_t sites = daemon_.control().sites;
    ASSERT_GT(sites, 0U);
    const Before before = look();
    std::uint64_t failed = 0;
    for (const std::uint64_t count : {std::uint64_t{1}, failing.count}) {
      // A client that cannot be accepted waits until it can, so no answer can be expected for these sites.
      constexpr auto kLettingIn =
          static_cast<std::uint32_t>(Call::kAccept) | static_cast<std::uint32_t>(Call::kRegistering);
      if (count == kFromThenOn) failing.kinds &= ~kLettingIn;
      const std::uint64_t step = count == 1 || count == kFromThenOn ? failing.step : kSparse;
      for (std::uint64_t site = 1; site <= sites; site += step) {
        SCOPED_TRACE(fmt::format("site {} of {}, {} failure(s)", site, sites,
                                 count == 1             ? "1"
                                 : count == kFromThenOn ? "endless"
                                                        : "some"));
        run(site, count, live, failing);
        ASSERT_TRUE(daemon_.is_alive()) << where();
        if (daemon_.control().failed == 0) break;  // sites that wait for a timer may not occur
        ++failed;
        ASSERT_EQ(bystander_.trouble(), "") << where();
        ASSERT_EQ(left_behind(before), "") << where();
        if (HasFailure()) FAIL() << where();
      }
    }
    EXPECT_GE(failed, (failing.count == kFromThenOn ? 2 : 1) * sites / failing.step * failing.certain / 100);
    std::printf("%llu sites; %llu runs with failures\n", static_cast<unsigned long long>(sites),
                static_cast<unsigned long long>(failed));
  }

  DaemonProcess daemon_;
  Bystander bystander_;
};

}  // namespace pvrdma::test
