#include "device/shared_region.h"

#include <functional>
#include <gtest/gtest.h>

#include "device/capabilities.h"
#include "support/guest_memory.h"

namespace pvrdma::device {
namespace {

using guestmem::GuestPhys;

class SharedRegionTest : public testing::Test {
 protected:
  SharedRegionTest() {
    raw_.driver_version = 20;
    raw_.gos_info = 0x46;
    raw_.cmd_slot_dma = guest_.pages(1)[0].value;
    raw_.resp_slot_dma = guest_.pages(1)[0].value;
    raw_.async_ring_pages = {4, 0, guest_.object(4).directory};
    raw_.cq_ring_pages = {4, 0, guest_.object(4).directory};
    raw_.uar_pfn = 0x1'0000'1234;
    caps_ = caps_of(verbs::Limits{}, verbs::Rules{}, abi::Mac{});
  }

  tl::expected<SharedRegion, RegionDefect> load(PageFrames frames = PageFrames::k64Bit) {
    guest_.store(address_, raw_);
    return load_region(guest_.space(), address_, frames, caps_);
  }
  bool caps_written() { return guest_.load<abi::DeviceSharedRegion>(address_).caps.max_qp != 0; }

  void expect_refused(RegionDefect fault) {
    const auto region = load();
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error(), fault) << describe(region.error());
    EXPECT_FALSE(caps_written());
  }

  test::GuestMemory guest_;
  abi::DeviceSharedRegion raw_{};
  abi::Caps caps_{};
  GuestPhys address_ = guest_.pages(1)[0];
};

TEST_F(SharedRegionTest, LoadsAndWritesCapabilities) {
  address_.value += 0x100;  // a coherent allocation may be smaller than a page
  const auto region = load();
  ASSERT_TRUE(region);
  EXPECT_EQ(region->driver_version, 20u);
  EXPECT_EQ(region->command_slot.value, raw_.cmd_slot_dma);
  EXPECT_EQ(region->response_slot.value, raw_.resp_slot_dma);
  EXPECT_EQ(region->uar_page_frame, 0x1'0000'1234u);
  EXPECT_EQ(region->async_pages.size(), 4u);
  EXPECT_EQ(region->notification_pages.size(), 4u);
  const auto shown = guest_.load<abi::DeviceSharedRegion>(address_);
  EXPECT_EQ(std::memcmp(&shown.caps, &caps_, sizeof caps_), 0);
  EXPECT_EQ(describe_guest_os(region->guest_os), "64-bit Linux, version 1");
}

TEST_F(SharedRegionTest, AGuestOfAnyKindIsDescribed) {
  EXPECT_EQ(describe_guest_os(1 | 1 << 2 | 7 << 6), "32-bit Linux, version 7");
  EXPECT_EQ(describe_guest_os(~0U), "unknown width unknown system, version 65535");
}

TEST_F(SharedRegionTest, OlderVersionsHaveNarrowPageFrames) {
  const auto region = load(PageFrames::k32Bit);
  ASSERT_TRUE(region);
  EXPECT_EQ(region->uar_page_frame, 0x1234u);
}

TEST_F(SharedRegionTest, RefusesWhatIsNoMemory) {
  for (const std::uint64_t bad :
       {address_.value + 4, std::uint64_t{0}, guest_.end().value - 8, ~std::uint64_t{7}}) {
    const auto region = load_region(guest_.space(), GuestPhys(bad), PageFrames::k64Bit, caps_);
    ASSERT_FALSE(region);
    EXPECT_EQ(region.error(), RegionDefect::kNotMemory);
  }
}

TEST_F(SharedRegionTest, SaysThatTheVmmSharesNoMemory) {
  guestmem::AddressSpace unshared;
  ASSERT_TRUE(unshared.map(GuestPhys{0}, 1 << 20, Fd(), 0, true, true));
  const auto region = load_region(unshared, address_, PageFrames::k64Bit, caps_);
  ASSERT_FALSE(region);
  EXPECT_STREQ(describe(region.error()), "the VMM shares no memory: memory-backend-memfd,share=on");
}

TEST_F(SharedRegionTest, SaysThatTheVmmSharesOtherMemoryThanTheGuests) {
  const GuestPhys private_memory{guest_.end().value + (1 << 20)};
  ASSERT_TRUE(guest_.space().map(private_memory, 1 << 20, Fd(), 0, true, true));
  const auto region = load_region(guest_.space(), private_memory, PageFrames::k64Bit, caps_);
  ASSERT_FALSE(region);
  EXPECT_EQ(region.error(), RegionDefect::kNotShared);
}

TEST_F(SharedRegionTest, SaysThatTheVmmHasAPrivateCopy) {
  raw_ = {};
  expect_refused(RegionDefect::kEmpty);
}

TEST_F(SharedRegionTest, RefusesADriverBeforeTheFirst) {
  raw_.driver_version = 16;
  expect_refused(RegionDefect::kDriverVersion);
}

TEST_F(SharedRegionTest, RefusesBadSlots) {
  const auto good = raw_;
  for (const std::uint64_t bad :
       {std::uint64_t{0}, good.cmd_slot_dma + 8, guest_.end().value, ~std::uint64_t{0xfff}}) {
    raw_ = good;
    raw_.cmd_slot_dma = bad;
    expect_refused(RegionDefect::kCommandSlot);
    raw_ = good;
    raw_.resp_slot_dma = bad;
    expect_refused(RegionDefect::kResponseSlot);
  }
}

TEST_F(SharedRegionTest, BoundsRingPages) {
  const auto good = raw_;
  for (const std::uint32_t count : {0u, 1u, 17u, 513u, 0xffff'ffffu}) {
    raw_ = good;
    raw_.async_ring_pages.num_pages = count;
    expect_refused(RegionDefect::kAsyncRing);
    raw_ = good;
    raw_.cq_ring_pages.num_pages = count;
    expect_refused(RegionDefect::kNotificationRing);
  }
}

TEST_F(SharedRegionTest, RefusesBadDirectories) {
  const auto good = raw_;
  for (const std::uint64_t bad : {std::uint64_t{0}, good.async_ring_pages.pdir_dma + 8, guest_.end().value}) {
    raw_ = good;
    raw_.async_ring_pages.pdir_dma = bad;
    expect_refused(RegionDefect::kAsyncRing);
  }
  // A valid directory that names a page outside the memory.
  auto pages = guest_.pages(4);
  pages[2] = guest_.end();
  raw_ = good;
  raw_.cq_ring_pages.pdir_dma = guest_.directory(pages);
  expect_refused(RegionDefect::kNotificationRing);
}

}  // namespace
}  // namespace pvrdma::device
