#include "fabric/switch.h"

#include <gtest/gtest.h>

#include "fabric/fabric_fixture.h"
#include "fabric/port.h"

namespace pvrdma::fabric {
namespace {

class SwitchTest : public testing::Test {
 protected:
  FixedClock clock_;
  Transports transports_;
  Switch switch_{{}, transports_, clock_};
  Node a_{"VM-01", switch_};
  Node b_{"VM-02", switch_};
};

TEST_F(SwitchTest, KnowsWhichPortHoldsAGid) {
  EXPECT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  const auto holders = switch_.directory();
  ASSERT_EQ(holders.size(), 2U);
  EXPECT_EQ(holders[0].gid, gid(1));
  EXPECT_EQ(holders[0].port, "VM-01");
  EXPECT_EQ(holders[1].port, "VM-02");
}

TEST_F(SwitchTest, RefusesAGidThatAnotherPortHoldsAndCountsIt) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_FALSE(b_.port.bind_gid(gid(1)));
  EXPECT_FALSE(b_.port.bind_gid(gid(1)));
  EXPECT_EQ(switch_.duplicates_refused(), 2U);
  EXPECT_EQ(switch_.directory()[0].port, "VM-01");
  a_.port.unbind_gid(gid(1));
  EXPECT_TRUE(b_.port.bind_gid(gid(1))) << "free again";
}

TEST_F(SwitchTest, BindingTwiceOnOnePortIsNoDuplicate) {
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_TRUE(a_.port.bind_gid(gid(1)));
  EXPECT_EQ(switch_.duplicates_refused(), 0U);
  EXPECT_EQ(switch_.directory().size(), 1U);
}

TEST_F(SwitchTest, NoPortUnbindsAnothersGid) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  b_.port.unbind_gid(gid(1));
  b_.port.unbind_gid(gid(9));
  EXPECT_EQ(switch_.directory().size(), 1U);
}

TEST_F(SwitchTest, APortThatGoesTakesItsGidsAlong) {
  ASSERT_TRUE(a_.port.bind_gid(gid(1)));
  {
    Port passing("VM-03", switch_);
    ASSERT_TRUE(passing.bind_gid(gid(3)));
    ASSERT_TRUE(passing.bind_gid(gid(4)));
    EXPECT_EQ(switch_.directory().size(), 3U);
  }
  EXPECT_EQ(switch_.directory().size(), 1U);
  EXPECT_EQ(switch_.path_to(gid(3)).kind, PathKind::kNone);
}

TEST_F(SwitchTest, TellsThePathAndWhy) {
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kNone);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "no port holds the GID");
  ASSERT_TRUE(b_.port.bind_gid(gid(2)));
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kLocal);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "both ports are on this host");
  b_.port.detach();
  EXPECT_EQ(switch_.path_to(gid(2)).kind, PathKind::kNone);
  EXPECT_EQ(switch_.path_to(gid(2)).reason, "no adapter is behind the port that holds the GID");
}

TEST(PathNames, AreStable) {
  EXPECT_EQ(name_of(PathKind::kNone), "none");
  EXPECT_EQ(name_of(PathKind::kLocal), "local");
  EXPECT_EQ(name_of(PathKind::kTcp), "tcp");
  EXPECT_EQ(name_of(DropReason::kNoPath), "no_path");
  EXPECT_EQ(name_of(DropReason::kUnknownGid), "unknown_gid");
  EXPECT_EQ(name_of(DropReason::kPortDetached), "port_detached");
}

}  // namespace
}  // namespace pvrdma::fabric
