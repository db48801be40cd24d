#include "verbs/gid_table.h"

#include <algorithm>
#include <string>
#include <vector>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace pvrdma::verbs {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

// Records what the table reported to the switch: "+1" bound, "-1" unbound.
class RecordingRegistry final : public GidRegistry {
 public:
  bool bind_gid(const Gid& gid) override {
    if (gid == refused) return false;
    calls.push_back("+" + std::to_string(gid.bytes[15]));
    return true;
  }
  void unbind_gid(const Gid& gid) override { calls.push_back("-" + std::to_string(gid.bytes[15])); }

  std::vector<std::string> calls;
  Gid refused;
};

Gid gid_of(std::uint8_t last_byte) {
  Gid gid;
  gid.bytes[0] = 0xfe;
  gid.bytes[1] = 0x80;
  gid.bytes[15] = last_byte;
  return gid;
}

class GidTableTest : public testing::Test {
 protected:
  RecordingRegistry port;
  GidTable table{4, port};
};

TEST_F(GidTableTest, BindsAnnouncesAndFinds) {
  ASSERT_TRUE(table.bind(3, gid_of(1), RoceVersion::kV1));
  EXPECT_THAT(port.calls, ElementsAre("+1"));
  ASSERT_NE(table.at(3), nullptr);
  EXPECT_EQ(table.at(3)->gid, gid_of(1));
  EXPECT_EQ(table.at(3)->roce, RoceVersion::kV1);
  EXPECT_EQ(table.at(0), nullptr);
  EXPECT_EQ(table.at(4), nullptr);
  EXPECT_EQ(table.at(0xffff'ffff), nullptr);
}

TEST_F(GidTableTest, RefusesBadIndexAndZeroGid) {
  EXPECT_EQ(table.bind(4, gid_of(1), RoceVersion::kV2).error(), CommandError::kInvalid);
  EXPECT_EQ(table.bind(0xffff'ffff, gid_of(1), RoceVersion::kV2).error(), CommandError::kInvalid);
  EXPECT_EQ(table.bind(0, Gid{}, RoceVersion::kV2).error(), CommandError::kInvalid);
  EXPECT_THAT(port.calls, IsEmpty());
}

TEST_F(GidTableTest, UnbindNeedsTheSameGid) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  EXPECT_EQ(table.unbind(0, gid_of(2)).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.unbind(1, gid_of(1)).error(), CommandError::kNoSuchObject);
  EXPECT_EQ(table.unbind(4, gid_of(1)).error(), CommandError::kNoSuchObject);
  EXPECT_TRUE(table.unbind(0, table.at(0)->gid));  // passes the entry's own GID by reference
  EXPECT_EQ(table.unbind(0, gid_of(1)).error(), CommandError::kNoSuchObject);
  EXPECT_THAT(port.calls, ElementsAre("+1", "-1"));
}

TEST_F(GidTableTest, OneGidAtTwoIndicesIsAnnouncedOnce) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV1));
  ASSERT_TRUE(table.bind(1, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.unbind(0, gid_of(1)));
  EXPECT_THAT(port.calls, ElementsAre("+1"));
  ASSERT_TRUE(table.unbind(1, gid_of(1)));
  EXPECT_THAT(port.calls, ElementsAre("+1", "-1"));
}

TEST_F(GidTableTest, RebindingTheSameGidOnlyChangesItsVersion) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV1));
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  EXPECT_EQ(table.at(0)->roce, RoceVersion::kV2);
  EXPECT_THAT(port.calls, ElementsAre("+1"));
}

TEST_F(GidTableTest, ReplacingWithdrawsTheOldOne) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.bind(0, gid_of(2), RoceVersion::kV2));
  EXPECT_THAT(port.calls, ElementsAre("+1", "+2", "-1"));
}

TEST_F(GidTableTest, ReplacingKeepsAGidBoundElsewhere) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.bind(1, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.bind(0, gid_of(2), RoceVersion::kV2));
  EXPECT_THAT(port.calls, ElementsAre("+1", "+2"));
}

TEST_F(GidTableTest, ARefusedGidLeavesTheOldOne) {
  port.refused = gid_of(9);
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  EXPECT_EQ(table.bind(0, gid_of(9), RoceVersion::kV2).error(), CommandError::kAddressInUse);
  EXPECT_EQ(table.bind(1, gid_of(9), RoceVersion::kV2).error(), CommandError::kAddressInUse);
  EXPECT_EQ(table.at(0)->gid, gid_of(1));
  EXPECT_EQ(table.at(1), nullptr);
  EXPECT_THAT(port.calls, ElementsAre("+1"));
}

TEST_F(GidTableTest, ClearWithdrawsEachOnce) {
  ASSERT_TRUE(table.bind(0, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.bind(1, gid_of(1), RoceVersion::kV2));
  ASSERT_TRUE(table.bind(2, gid_of(2), RoceVersion::kV2));
  port.calls.clear();
  table.clear();
  EXPECT_THAT(port.calls, ElementsAre("-1", "-2"));
  EXPECT_TRUE(std::none_of(table.entries().begin(), table.entries().end(),
                           [](const auto& e) { return e.has_value(); }));
  table.clear();
  EXPECT_THAT(port.calls, ElementsAre("-1", "-2"));
}

TEST_F(GidTableTest, DestructionWithdraws) {
  {
    GidTable shortlived(2, port);
    ASSERT_TRUE(shortlived.bind(0, gid_of(5), RoceVersion::kV2));
  }
  EXPECT_THAT(port.calls, ElementsAre("+5", "-5"));
}

TEST(Gid, PrintsAsInetNtopDoes) {
  EXPECT_EQ(Gid{}.to_string(), "::");
  EXPECT_EQ(gid_of(1).to_string(), "fe80::1");
  Gid mapped;
  mapped.bytes = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, 192, 168, 11, 51};
  EXPECT_EQ(mapped.to_string(), "::ffff:192.168.11.51");
  EXPECT_TRUE(mapped.is_ipv4_mapped());
  EXPECT_FALSE(gid_of(1).is_ipv4_mapped());
}

TEST(Serial, DistanceWrapsAt24Bits) {
  EXPECT_EQ(distance(MessageNumber(5), MessageNumber(3)), 2);
  EXPECT_EQ(distance(MessageNumber(0), MessageNumber(0xff'ffff)), 1);
  EXPECT_EQ(distance(MessageNumber(0xff'ffff), MessageNumber(0)), -1);
  EXPECT_EQ(distance(MessageNumber(0x7f'ffff), MessageNumber(0)), 0x7f'ffff);
  EXPECT_EQ(MessageNumber(0xff'ffff).next(), MessageNumber(0));
}

}  // namespace
}  // namespace pvrdma::verbs
