// What the path hca does while the shard has no memory: the work is done later, and nothing ends the daemon.
#include "support/counted_new.h"
#include "transport/hca/hca_fixture.h"
#include "transport/hca/pipe_end.h"

namespace pvrdma::transport {
namespace {

using hca::HcaFixture;
using hca::PipeEnd;
using std::chrono::milliseconds;
using std::chrono::seconds;
using test::NoMemoryFrom;

using HcaNoMemory = HcaFixture;

// The statistics are asked for between an attempt to configure and the next one.
TEST_F(HcaNoMemory, PeersThatAreNotTakenYetCanBeListed) {
  int failures = 0;
  for (std::uint32_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    Host& a = add_host();
    const HcaSettings settings{.device = a.device,
                               .peers = {{HostId(1001), "esx1001"}, {HostId(1002), "esx1002"}}};
    bool failed = false;
    {
      const NoMemoryFrom none(nth);
      try {
        a.hca->configure(settings);
      } catch (const std::bad_alloc&) {
      }
      failed = none.has_failed();
    }
    EXPECT_LE(a.hca->peers().size(), settings.peers.size());
    a.hca->configure(settings);
    EXPECT_EQ(a.hca->peers().size(), settings.peers.size());
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 5);
}

TEST_F(HcaNoMemory, AnOfferedPipeForWhichThereIsNoneIsGivenUp) {
  Host& a = add_host();
  struct Nobody final : hca::NicUser {
    void on_news(News) override {}
  } nobody;
  nics_.add("other", hca::kConnectX5, {hca::link_local(66)});
  std::shared_ptr<hca::Nic> nic = nics_.open("other", nobody).value();
  a.hca->configure({.device = a.device, .peers = {{HostId(2), "esx2"}}});
  pass(milliseconds(10));
  int failures = 0;
  for (std::uint32_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    auto end = PipeEnd::make(nic, 1024).value();
    const auto answer = a.hca->answer("esx2", {end->here(), {hca::link_local(66)}});
    ASSERT_TRUE(answer) << answer.error().message;
    bool failed = false;
    {
      const NoMemoryFrom none(nth);
      turn();
      failed = none.has_failed();
    }
    end.reset();
    pass(seconds(6));  // the device is opened again meanwhile
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 1);
  nic.reset();
}

TEST_F(HcaNoMemory, ADeviceThatFailsIsLeftAndOpenedAgain) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  int failures = 0;
  for (std::uint32_t nth = 1;; ++nth) {
    SCOPED_TRACE(nth);
    nics_.destroy(a.device);
    bool failed = false;
    {
      const NoMemoryFrom none(nth);
      turn();
      failed = none.has_failed();
    }
    pass(seconds(6));  // a device that was not left is left now
    nics_.add(a.device, hca::kConnectX5, {hca::link_local(1)});
    ASSERT_TRUE(wait([&] { return reach(a, b); })) << "a pipe that has often fallen is tried for a while";
    if (!failed) break;
    ++failures;
  }
  EXPECT_GT(failures, 1);
}

TEST_F(HcaNoMemory, ADaemonThatStopsStops) {
  Host& a = add_host();
  Host& b = add_host();
  join(a, b);
  book_.hosts.erase({a.name, a.shard});
  {
    const NoMemoryFrom none(1);
    a.hca.reset();
  }
  while (a.worker.run({})) {
  }
  loop_->remove(a.worker);
  EXPECT_TRUE(wait([&] { return !b.hca->is_up(a.id); }, seconds(10)));
}

}  // namespace
}  // namespace pvrdma::transport
