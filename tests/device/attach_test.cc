// Probe, capabilities, removal and reconnection for every hardware version (docs/device.md 1, 2, 8.7).
#include <ostream>
#include <string>
#include <thread>

#include "device_test.h"

namespace pvrdma::test {
namespace {

struct Hardware {
  HardwareVersion version;
  RoceVersion roce;
  std::uint32_t register_value;
};

class Attach : public DeviceTest, public ::testing::WithParamInterface<Hardware> {
 protected:
  Attach() : DeviceTest({.hardware_version = GetParam().version, .roce = GetParam().roce}) {}
};

void PrintTo(const Hardware& hardware, std::ostream* out) {  // gtest finds it by this name
  *out << "hardware version " << static_cast<int>(hardware.version) << " RoCE v"
       << static_cast<int>(hardware.roce);
}

INSTANTIATE_TEST_SUITE_P(HardwareVersions, Attach,
                         ::testing::Values(Hardware{HardwareVersion::k13, RoceVersion::kV1, 17},
                                           Hardware{HardwareVersion::k14, RoceVersion::kV1, 18},
                                           Hardware{HardwareVersion::k14, RoceVersion::kV2, 18},
                                           Hardware{HardwareVersion::k17, RoceVersion::kV2, 19},
                                           Hardware{HardwareVersion::k18, RoceVersion::kV1, 20},
                                           Hardware{HardwareVersion::k18, RoceVersion::kV2, 20}),
                         [](const auto& instance) {
                           return "hw" + std::to_string(static_cast<int>(instance.param.version)) + "_v" +
                                  std::to_string(static_cast<int>(instance.param.roce));
                         });

TEST_P(Attach, capabilities_are_what_the_driver_needs) {
  const driver::Device& dev = device(0);
  const abi::Caps& caps = dev.caps();
  EXPECT_EQ(dev.version(), GetParam().register_value);
  EXPECT_EQ(caps.gid_types, static_cast<std::uint8_t>(GetParam().roce));
  EXPECT_EQ(caps.mode, 0);
  EXPECT_EQ(caps.phys_port_cnt, 1);
  EXPECT_TRUE(std::has_single_bit(caps.max_uar));
  EXPECT_TRUE(std::has_single_bit(caps.max_cqe));
  EXPECT_TRUE(std::has_single_bit(caps.max_sge));
  EXPECT_LE(caps.max_sge, 251u);
  EXPECT_EQ(caps.max_sge_rd, caps.max_sge);
  EXPECT_GE(caps.max_qp_wr, 512u);
  EXPECT_GE(caps.max_cqe, 1024u);
  EXPECT_NE(caps.max_qp & 0xffff, 0u);
  EXPECT_LT(caps.max_qp, 65536u);
  EXPECT_GT(caps.max_pd, 0u);
  EXPECT_GT(caps.max_ah, 0u);
  EXPECT_EQ(caps.max_pkeys, 1);
  EXPECT_EQ(caps.node_guid, caps.sys_image_guid);
  EXPECT_EQ(caps.max_srq != 0, GetParam().version != HardwareVersion::k13);
  EXPECT_EQ(caps.bmme_flags, 7);
}

TEST_P(Attach, port_pkey_and_bar_sizes) {
  driver::Device& dev = device(0);
  const abi::PortAttr port = must(dev.query_port());
  EXPECT_EQ(port.state, 4u);
  EXPECT_EQ(port.phys_state, 5);
  EXPECT_EQ(port.gid_tbl_len, dev.caps().gid_tbl_len);
  EXPECT_EQ(port.active_mtu, 3u);
  EXPECT_EQ(port.pkey_tbl_len, 1);
  EXPECT_EQ(must(dev.query_pkey(0)), 0xffff);
  EXPECT_EQ(must(dev.bus().region_bytes(driver::Region::kRegisters)), 4096u);
  EXPECT_GE(must(dev.bus().region_bytes(driver::Region::kUar)), dev.caps().max_uar * 4096ULL);
  std::uint32_t ids = must(dev.bus().region_read32(driver::Region::kConfig, 0));
  EXPECT_EQ(ids, 0x082015adu);
}

TEST_P(Attach, traffic_flows) {
  RcEndpoint a(device(0), gid_of(0));
  RcEndpoint b(device(1), gid_of(1));
  if (GetParam().register_value < 20) {
    EXPECT_EQ(a.qp->qpn(), a.qp->handle());
  }
  EXPECT_GE(a.qp->qpn(), 2u);
  must(connect(a, b));
  a.fill(0, 5000, 1);
  ASSERT_TRUE(b.recv(7, 8000, 5000).ok());
  const Sge sge = a.sge(0, 5000);
  ASSERT_TRUE(a.qp->post_send(wr::send(1, one(sge))).ok());
  EXPECT_EQ(await_one(*a.send_cq).status, Status::kSuccess);
  const WorkCompletion got = await_one(*b.recv_cq);
  EXPECT_EQ(got.status, Status::kSuccess);
  EXPECT_EQ(got.wr_id, 7u);
  EXPECT_EQ(got.byte_len, 5000u);
  EXPECT_TRUE(b.holds(8000, 5000, 1));
}

class Reattach : public DeviceTest {};

TEST_F(Reattach, the_driver_can_be_unloaded_and_loaded_again) {
  for (int round = 0; round < 3; ++round) {
    {
      RcEndpoint a(device(0), gid_of(0));
      RcEndpoint b(device(1), gid_of(1));
      must(connect(a, b));
    }
    must(devices_[0]->close());
    EXPECT_EQ(host_.info(0).state, device::AdapterState::kDetached);
    devices_[0].reset();
    EXPECT_TRUE(eventually([&] { return !host_.info(0).connected; }));
  }
}

// The same connection gets a new DSR each time, without a CTL RESET before, like a driver whose first probe
// failed (1.6).
TEST_F(Reattach, a_new_shared_region_drops_everything_of_the_old_one) {
  driver::Device& dev = device(0);
  auto pd = must(driver::ProtectionDomain::create(dev.kernel()));
  auto cq = must(driver::CompletionQueue::create(dev.kernel(), 16));
  EXPECT_EQ(host_.info(0).objects.pds, 1u);
  auto region = must(driver::SharedRegion::create(dev.ram(), dev.version(), dev.uar_pfn(0)));
  must(dev.write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(region->gpa().value)));
  must(dev.write_register(abi::Register::kDsrHigh, static_cast<std::uint32_t>(region->gpa().value >> 32)));
  EXPECT_EQ(host_.info(0).objects.pds, 0u);
  EXPECT_EQ(host_.info(0).objects.cqs, 0u);
  EXPECT_EQ(region->caps().max_qp, dev.caps().max_qp);
  EXPECT_FALSE(dev.query_port());  // not activated
  must(dev.write_register(abi::Register::kCtl, 0));
  EXPECT_EQ(must(dev.read_register(abi::Register::kErr)), 0u);
}

TEST_F(Reattach, vfio_reset_is_a_reboot) {
  driver::Device& dev = device(0);
  auto pd = must(driver::ProtectionDomain::create(dev.kernel()));
  must(dev.bus().reset());
  const auto info = host_.info(0);
  EXPECT_EQ(info.state, device::AdapterState::kDetached);
  EXPECT_EQ(info.objects.pds, 0u);
  EXPECT_TRUE(info.gids.empty());
  EXPECT_NE(info.dma_ram_bytes, 0u);  // DMA windows stay
  EXPECT_EQ(must(dev.read_register(abi::Register::kVersion)), dev.version());
}

TEST_F(Reattach, a_second_client_is_turned_away_and_the_first_goes_on) {
  driver::Device& dev = device(0);
  EXPECT_FALSE(driver::VfioUserBus::connect(host_.socket_path(0), std::chrono::milliseconds(500)));
  EXPECT_TRUE(dev.query_port());
}

TEST_F(Reattach, nothing_is_written_before_activation) {
  auto bus = must(driver::VfioUserBus::connect(host_.socket_path(0)));
  auto ram = must(driver::GuestRam::create({}));
  must(bus->dma_map(ram->base().value, ram->size_bytes(), ram->fd(), 0));
  {
    auto region = must(driver::SharedRegion::create(*ram, 20, 1 << 20));
    const std::uint64_t at = region->gpa().value;
    must(bus->region_write32(driver::Region::kRegisters, 4, static_cast<std::uint32_t>(at)));
    must(bus->region_write32(driver::Region::kRegisters, 8, static_cast<std::uint32_t>(at >> 32)));
    host_.on_shard(0, [](adapters::ServedAdapter& service) {
      service.set_link(false);
      service.set_link(true);
    });
    EXPECT_EQ(region->async_events().state().tail(std::memory_order_acquire), 0u);
  }
}

TEST_F(Reattach, link_changes_reach_the_guest_as_events) {
  driver::Device& dev = device(0);
  while (dev.poll_async_event()) {
  }
  host_.on_shard(0, [](adapters::ServedAdapter& service) { service.set_link(false); });
  auto event = dev.wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, abi::EventType::kPortErr);
  EXPECT_EQ(event->info, 1u);
  EXPECT_EQ(must(dev.query_port()).state, 1u);
  host_.on_shard(0, [](adapters::ServedAdapter& service) { service.set_link(true); });
  event = dev.wait_async_event(kPatience);
  ASSERT_TRUE(event);
  EXPECT_EQ(event->type, abi::EventType::kPortActive);
}

}  // namespace
}  // namespace pvrdma::test
