// Drivers that attach incorrectly: shared regions with bad contents, commands before activation, invalid
// register and doorbell accesses (docs/device.md 1.4, 9.4).
#include <array>
#include <cstring>
#include <functional>

#include "device_test.h"

namespace pvrdma::test {
namespace {

using driver::GuestPhys;
using driver::Region;

class BadProbe : public DeviceTest {
 protected:
  void SetUp() override {
    bus_ = must(driver::VfioUserBus::connect(host_.socket_path(0)));
    ram_ = must(driver::GuestRam::create({}));
    must(bus_->dma_map(ram_->base().value, ram_->size_bytes(), ram_->fd(), 0));
    must(driver::enable_bus_master(*bus_));
    region_ = must(driver::SharedRegion::create(*ram_, 20, 1 << 20));
  }
  void TearDown() override {
    region_.reset();
    bus_.reset();
    ram_.reset();
    EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
    EXPECT_TRUE(device(0).query_port());  // afterwards a correct driver can use the adapter
    EXPECT_TRUE(device(1).query_port());
    DeviceTest::TearDown();
  }
  std::uint32_t read(abi::Register reg) {
    return must(bus_->region_read32(Region::kRegisters, static_cast<std::uint64_t>(reg)));
  }
  void write(abi::Register reg, std::uint32_t value) {
    must(bus_->region_write32(Region::kRegisters, static_cast<std::uint64_t>(reg), value));
  }
  void announce(std::uint64_t address) {
    write(abi::Register::kDsrLow, static_cast<std::uint32_t>(address));
    write(abi::Register::kDsrHigh, static_cast<std::uint32_t>(address >> 32));
  }
  bool activates() {
    write(abi::Register::kCtl, 0);
    return read(abi::Register::kErr) == 0;
  }
  bool accepts_command() {
    abi::QueryPortRequest query{.port_num = 1};
    std::memcpy(region_->command_slot().data(), &query, sizeof(query));
    write(abi::Register::kRequest, 0);
    return read(abi::Register::kErr) == 0;
  }
  void refused(const std::function<void(abi::DeviceSharedRegion&)>& change) {
    const abi::DeviceSharedRegion good = region_->raw();
    change(region_->raw());
    announce(region_->gpa().value);
    EXPECT_FALSE(activates());
    EXPECT_FALSE(accepts_command());
    region_->raw() = good;
  }

  std::unique_ptr<driver::VfioUserBus> bus_;
  std::unique_ptr<driver::GuestRam> ram_;
  std::unique_ptr<driver::SharedRegion> region_;
};

TEST_F(BadProbe, commands_need_a_region_and_activation) {
  EXPECT_FALSE(accepts_command());
  EXPECT_FALSE(activates());
  announce(region_->gpa().value);
  EXPECT_FALSE(accepts_command());
  EXPECT_TRUE(activates());
  EXPECT_TRUE(accepts_command());
}

TEST_F(BadProbe, ring_page_counts) {
  for (const std::uint32_t pages : {0u, 1u, 513u, 0x10000u, 0xffffffffu}) {
    SCOPED_TRACE(pages);
    refused([&](auto& dsr) { dsr.async_ring_pages.num_pages = pages; });
    refused([&](auto& dsr) { dsr.cq_ring_pages.num_pages = pages; });
  }
}

TEST_F(BadProbe, addresses_that_are_no_memory) {
  for (const std::uint64_t address :
       {std::uint64_t{0}, std::uint64_t{0x1000}, ~std::uint64_t{0}, ~std::uint64_t{0xfff}}) {
    SCOPED_TRACE(address);
    refused([&](auto& dsr) { dsr.cmd_slot_dma = address; });
    refused([&](auto& dsr) { dsr.resp_slot_dma = address; });
    refused([&](auto& dsr) { dsr.async_ring_pages.pdir_dma = address; });
    refused([&](auto& dsr) { dsr.cq_ring_pages.pdir_dma = address; });
  }
}

TEST_F(BadProbe, regions_that_are_no_memory) {
  const std::uint64_t end = ram_->base().value + ram_->size_bytes();
  for (const std::uint64_t address : {std::uint64_t{0}, end, end - 279, ~std::uint64_t{0}}) {
    SCOPED_TRACE(address);
    announce(address);
    EXPECT_FALSE(activates());
  }
}

TEST_F(BadProbe, a_failed_announcement_invalidates_the_region_before) {
  announce(region_->gpa().value);
  ASSERT_TRUE(activates());
  ASSERT_TRUE(accepts_command());
  announce(0);
  EXPECT_FALSE(accepts_command());
  EXPECT_FALSE(activates());
  announce(region_->gpa().value);
  EXPECT_TRUE(activates());
}

TEST_F(BadProbe, controls_that_do_not_exist) {
  announce(region_->gpa().value);
  for (const std::uint32_t control : {3u, 0x10000u, 0xffffffffu}) {
    write(abi::Register::kCtl, control);
    EXPECT_NE(read(abi::Register::kErr), 0u) << control;
  }
  EXPECT_TRUE(activates());
}

TEST_F(BadProbe, the_memory_goes_away_under_an_active_driver) {
  announce(region_->gpa().value);
  ASSERT_TRUE(activates());
  must(bus_->dma_unmap(ram_->base().value, ram_->size_bytes()));
  EXPECT_FALSE(accepts_command());
  must(bus_->region_write32(Region::kUar, 0, 1 | abi::kQpDoorbellSend));
  must(bus_->dma_map(ram_->base().value, ram_->size_bytes(), ram_->fd(), 0));
}

TEST_F(BadProbe, odd_register_accesses_hurt_nobody) {
  std::array<std::byte, 4096> bytes{};
  for (const Region region : {Region::kMsix, Region::kRegisters, Region::kUar, Region::kConfig}) {
    for (const std::size_t width : {1u, 2u, 3u, 8u, 64u, 256u}) {
      for (const std::uint64_t offset : {0u, 1u, 2u, 8u, 13u, 64u}) {
        if (offset + width > must(bus_->region_bytes(region))) continue;
        (void)bus_->region_read(region, offset, std::span(bytes).first(width));
        (void)bus_->region_write(region, offset, std::span(bytes).first(width));
      }
    }
  }
  EXPECT_EQ(read(abi::Register::kVersion), 20u);
  write(abi::Register::kVersion, 99);
  EXPECT_EQ(read(abi::Register::kVersion), 20u);
}

TEST_F(BadProbe, doorbells_for_nothing_are_counted) {
  announce(region_->gpa().value);
  ASSERT_TRUE(activates());
  const auto before = host_.info(0).verbs_counters.bad_doorbells;
  must(bus_->region_write32(Region::kUar, 0, 0xffffff | abi::kQpDoorbellSend));
  must(bus_->region_write32(Region::kUar, 0, 5 | abi::kQpDoorbellRecv));
  must(bus_->region_write32(Region::kUar, 4, 17 | abi::kCqDoorbellArm));
  must(bus_->region_write32(Region::kUar, 8, 17 | abi::kSrqDoorbellRecv));
  must(bus_->region_write32(Region::kUar, 4096 * 3, 5 | abi::kQpDoorbellSend));
  EXPECT_EQ(host_.info(0).verbs_counters.bad_doorbells, before + 5);
}

}  // namespace
}  // namespace pvrdma::test
