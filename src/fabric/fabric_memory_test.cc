// What a switch does while the shard has no memory. Its news come once, and destructors call it.
#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/switch.h"
#include "support/counted_new.h"
#include "support/manual_clock.h"

namespace pvrdma::fabric {
namespace {

using test::NoMemoryFrom;

class FabricNoMemory : public testing::Test {
 protected:
  FabricNoMemory() { transports_.use(transport_); }

  test::ManualClock clock_;
  RecordingTransport transport_{PathKind::kLocal};
  Transports transports_;
  HostGids host_{1};
  Switch switch_{{}, transports_, clock_, host_};
  Node a_{"VM-01", switch_};
};

// The client of a stopped adapter leaves.
TEST_F(FabricNoMemory, AStoppedPortWorksAgain) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_EQ(a_.port.set_stopped(true), 0U);
  const NoMemoryFrom none(1);
  EXPECT_EQ(a_.port.set_stopped(false), 0U);
}

TEST_F(FabricNoMemory, ConnectionsContinueWhenAHostIsBack) {
  const NoMemoryFrom none(1);
  switch_.paths_restored(transport::HostId(7), clock_.now());
  switch_.paths_restored(transport::ShardNumber(1), std::nullopt, clock_.now());
  switch_.paths_ready();
}

TEST_F(FabricNoMemory, APortThatArrivesHasEachGidOnce) {
  for (std::uint64_t nth = 1;; ++nth) {
    Port arriving("VM-02", {}, switch_);
    arriving.wait();
    for (std::uint8_t last = 10; last < 20; ++last) ASSERT_TRUE(arriving.bind_gid(gid(last)));
    bool failed = false;
    {
      const NoMemoryFrom none(nth);
      try {
        arriving.arrive();
      } catch (const std::bad_alloc&) {
      }
      failed = none.has_failed();
    }
    arriving.arrive();
    EXPECT_EQ(switch_.directory().size(), 10U);
    for (std::uint8_t last = 10; last < 20; ++last) arriving.unbind_gid(gid(last));
    EXPECT_EQ(switch_.directory().size(), 0U) << "allocation " << nth;
    if (!failed) break;
  }
}

}  // namespace
}  // namespace pvrdma::fabric
