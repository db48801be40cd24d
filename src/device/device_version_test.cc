#include "device/device_version.h"

#include <cstddef>
#include <gtest/gtest.h>

#include "abi/shared_region.h"
#include "device/capabilities.h"

namespace pvrdma::device {
namespace {

TEST(HardwareVersion, EachGivesADeviceVersionOfItsOwn) {
  EXPECT_EQ(device_version(HardwareVersion::k13), 17u);
  EXPECT_EQ(device_version(HardwareVersion::k14), 18u);
  EXPECT_EQ(device_version(HardwareVersion::k17), 19u);
  EXPECT_EQ(device_version(HardwareVersion::k18), 20u);
}

TEST(HardwareVersion, ThirteenIsWithoutSrq) {
  for (const HardwareVersion version : kHardwareVersions) {
    EXPECT_EQ(limits_of(version, Profile::kOpen).max_srq == 0, version == HardwareVersion::k13);
  }
}

TEST(HardwareVersion, OnlyEighteenSeparatesHandleAndNumber) {
  for (const HardwareVersion version : kHardwareVersions) {
    const bool newest = version == HardwareVersion::k18;
    EXPECT_EQ(separates_qp_handle(version), newest);
    EXPECT_EQ(rules_of(version, RoceVersion::kV1, Profile::kOpen).qp_handle_is_qpn, !newest);
    EXPECT_EQ(has_wide_page_frames(version), newest || version == HardwareVersion::k17);
  }
}

TEST(Capabilities, AreWhatTheDesignSays) {
  const verbs::Limits limits = limits_of(HardwareVersion::k14, Profile::kOpen);
  const verbs::Rules rules = rules_of(HardwareVersion::k14, RoceVersion::kV2, Profile::kOpen);
  const abi::Caps caps = caps_of(limits, rules, abi::Mac{{0x00, 0x50, 0x56, 0xaa, 0xbb, 0xcc}});
  EXPECT_EQ(caps.fw_ver, 3ULL << 32);
  EXPECT_EQ(caps.node_guid.to_host(), 0x025056fffeaabbccULL);
  EXPECT_EQ(caps.sys_image_guid, caps.node_guid);
  EXPECT_EQ(caps.max_qp, 32768u);
  EXPECT_EQ(caps.max_qp_wr, 1024u);
  EXPECT_EQ(caps.max_sge, 16u);
  EXPECT_EQ(caps.max_sge_rd, 16u);
  EXPECT_EQ(caps.max_cq, 4096u);
  EXPECT_EQ(caps.max_cqe, 262144u);
  EXPECT_EQ(caps.max_mr, 262144u);
  EXPECT_EQ(caps.max_srq, 256u);
  EXPECT_EQ(caps.max_uar, 1024u);
  EXPECT_EQ(caps.gid_tbl_len, 64u);
  EXPECT_EQ(caps.mode, 0);
  EXPECT_EQ(caps.atomic_ops, 3);
  EXPECT_EQ(caps.bmme_flags, 7);
  EXPECT_EQ(caps.gid_types, 2);
  EXPECT_EQ(caps.device_cap_flags, 0u);
  EXPECT_EQ(caps.phys_port_cnt, 1);
  EXPECT_EQ(caps.max_pkeys, 1);
  EXPECT_EQ(caps.max_fast_reg_page_list_len, 128u);
  // At the offsets where the driver reads them.
  const auto* bytes = reinterpret_cast<const unsigned char*>(&caps);
  EXPECT_EQ(bytes[8], 0x02) << "the GUID is big-endian";
  EXPECT_EQ(bytes[203], 2) << "gid_types at DSR 275";
}

TEST(Capabilities, EsxiProfileTakesBack) {
  const verbs::Limits limits = limits_of(HardwareVersion::k18, Profile::kEsxi);
  const verbs::Rules rules = rules_of(HardwareVersion::k18, RoceVersion::kV1, Profile::kEsxi);
  EXPECT_EQ(limits.max_ud_qp, 3u);
  EXPECT_FALSE(rules.atomics);
  const abi::Caps caps = caps_of(limits, rules, {});
  EXPECT_EQ(caps.atomic_ops, 0);
  EXPECT_EQ(caps.gid_types, 1);
}

TEST(Capabilities, MappedDoorbellsNeedAnX86Host) {
  EXPECT_TRUE(check_doorbells(DoorbellMode::kTrapped, false));
  EXPECT_TRUE(check_doorbells(DoorbellMode::kTrapped, true));
  EXPECT_TRUE(check_doorbells(DoorbellMode::kMapped, true));
  const auto refused = check_doorbells(DoorbellMode::kMapped, false);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message,
            "doorbells = \"mapped\" needs an x86-64 host, which this is not; choose trapped");
}

TEST(Capabilities, ChecksOwnAndForeignLimits) {
  for (const HardwareVersion version : kHardwareVersions) {
    EXPECT_TRUE(check_limits(limits_of(version, Profile::kOpen)));
    EXPECT_TRUE(check_limits(limits_of(version, Profile::kEsxi)));
  }
  verbs::Limits limits;
  limits.max_context = 1000;  // the driver refuses a number that is not a power of two
  EXPECT_EQ(check_limits(limits).error().message,
            "limit max_context = 1000 is not a power of two from 2 to 32768");
  limits = {};
  limits.max_qp = 65536;  // the provider's table would be empty
  EXPECT_FALSE(check_limits(limits));
  limits = {};
  limits.max_qp_wr = 256;  // no room for a GSI QP
  EXPECT_FALSE(check_limits(limits));
  limits = {};
  limits.max_cqe = 3000;
  EXPECT_FALSE(check_limits(limits));
  limits = {};
  limits.max_rd_atomic = verbs::kRdAtomicMax + 1;  // one atomic could not be answered again
  EXPECT_FALSE(check_limits(limits));
}

}  // namespace
}  // namespace pvrdma::device
