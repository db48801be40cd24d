// The adapter as a whole: the driver's life, resets, connection, link, events and failure.
#include "device/adapter.h"

#include <cerrno>
#include <gtest/gtest.h>

#include "base/log.h"
#include "device/capabilities.h"
#include "device/fake_guest.h"
#include "guestmem/sigbus.h"
#include "support/manual_clock.h"

namespace pvrdma::device {
namespace {

using abi::Command;
using test::FakeGuest;
using test::kActivate;

constexpr auto kUnquiesce = static_cast<std::uint32_t>(abi::Ctl::kUnquiesce);
constexpr auto kReset = static_cast<std::uint32_t>(abi::Ctl::kReset);

class AdapterTest : public testing::Test {
 protected:
  AdapterState state() { return guest_.adapter().info().state; }
  std::uint32_t async_tail() { return guest_.load<abi::RingState>(guest_.async.at[0]).rx.prod_tail; }
  std::uint32_t notification_tail() {
    return guest_.load<abi::RingState>(guest_.notifications.at[0]).rx.prod_tail;
  }

  FakeGuest guest_;
};

TEST(AdapterCreate, RefusesWhatTheHardwareVersionDoesNotOffer) {
  test::FakePort port;
  test::ManualClock clock;
  auto config = test::some_adapter(HardwareVersion::k13);
  config.roce = RoceVersion::kV2;
  auto created = Adapter::create(config, port, clock);
  ASSERT_FALSE(created);
  EXPECT_EQ(created.error().message,
            "adapter test: hardware version 13 offers RoCE v1 only; choose roce v1, or hardware version 14 "
            "or later");
  config.roce = RoceVersion::kV1;
  config.limits = verbs::Limits{};
  created = Adapter::create(config, port, clock);
  ASSERT_FALSE(created);
  EXPECT_NE(created.error().message.find("max_srq"), std::string::npos);
  config.limits->max_srq = 0;
  EXPECT_TRUE(Adapter::create(config, port, clock));
  config.limits->max_qp = 0;
  EXPECT_FALSE(Adapter::create(config, port, clock));
}

TEST(AdapterCreate, TakesMappedDoorbellsWhereTheHostHasThem) {
  test::FakePort port;
  test::ManualClock clock;
  auto config = test::some_adapter(HardwareVersion::k14);
  auto created = Adapter::create(config, port, clock);
  ASSERT_TRUE(created);
  EXPECT_EQ((*created)->info().doorbells, DoorbellMode::kTrapped);
  config.doorbells = DoorbellMode::kMapped;
  created = Adapter::create(config, port, clock);
  ASSERT_EQ(created.has_value(), kHostIsX86);
  if (created) {
    EXPECT_EQ((*created)->info().doorbells, DoorbellMode::kMapped);
  } else {
    EXPECT_EQ(created.error().message.find("adapter test: doorbells"), 0U) << created.error().message;
  }
}

TEST_F(AdapterTest, PresentsAPciDevice) {
  const auto& adapter = guest_.adapter();
  EXPECT_EQ(adapter.region_count(), 9u);
  EXPECT_EQ(adapter.irq_index_count(), 5u);
  EXPECT_EQ(adapter.region_info(0).size, 16384u);
  EXPECT_EQ(adapter.region_info(1).size, 4096u);
  EXPECT_EQ(adapter.region_info(7).size, 256u);
  for (std::uint32_t region = 0; region < 9; ++region)
    EXPECT_EQ(adapter.region_info(region).writes_need_replies, region == 1) << region;
  for (const std::uint32_t absent : {3u, 4u, 5u, 6u, 8u}) EXPECT_EQ(adapter.region_info(absent).size, 0u);
  for (const std::uint32_t trapped : {0u, 1u, 7u})
    EXPECT_TRUE(adapter.region_info(trapped).mmap_areas.empty());
  EXPECT_EQ(adapter.irq_count(0), 0u);
  EXPECT_EQ(adapter.irq_count(2), 3u);
  EXPECT_EQ(adapter.irq_count(3), 1u);
}

TEST_F(AdapterTest, ReadsOfEveryRegionAreDefined) {
  for (std::uint32_t region = 0; region < 9; ++region) {
    const std::uint64_t size = guest_.adapter().region_info(region).size;
    for (std::size_t width : {1, 2, 4, 8, 256}) {
      std::vector<std::byte> out(width);
      EXPECT_EQ(guest_.adapter().region_read(region, 0, out), size == 0 ? EINVAL : 0);
      EXPECT_EQ(guest_.adapter().region_write(region, 0, out, false), size == 0 ? EINVAL : 0);
      if (size != 0) {
        EXPECT_EQ(guest_.adapter().region_read(region, size - width, out), 0);
      }
    }
  }
}

TEST_F(AdapterTest, LifeOfADriver) {
  EXPECT_EQ(state(), AdapterState::kDetached);
  guest_.connect();
  guest_.prepare_region();
  guest_.load_region();
  EXPECT_EQ(state(), AdapterState::kAttached);
  const auto shown = guest_.load<abi::DeviceSharedRegion>(guest_.region_address);
  EXPECT_EQ(shown.caps.max_qp, 32768u) << "capabilities are there when DSRHIGH is acknowledged";
  EXPECT_EQ(shown.caps.gid_types, 2);
  EXPECT_EQ(guest_.control(kActivate), 0u);
  EXPECT_EQ(state(), AdapterState::kActive);
  EXPECT_EQ(guest_.control(kUnquiesce), 0u);
  guest_.create_pd();
  const auto info = guest_.adapter().info();
  EXPECT_EQ(info.driver_version, 20u);
  EXPECT_EQ(info.device_version, 18u);
  EXPECT_EQ(info.objects.pds, 1u);
  EXPECT_EQ(info.dma_map_count, 1u);
  EXPECT_EQ(info.dma_ram_bytes, 4u << 20);
  EXPECT_TRUE(info.connected);
  EXPECT_GT(info.device_counters.interrupts, 0u);
  EXPECT_EQ(guest_.control(kReset), 0u);
  EXPECT_EQ(state(), AdapterState::kDetached);
  EXPECT_EQ(guest_.adapter().info().objects.pds, 0u);
}

TEST_F(AdapterTest, CommandsNeedAnActiveDriver) {
  guest_.connect();
  guest_.prepare_region();
  guest_.write_register(abi::Register::kRequest, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), static_cast<std::uint32_t>(ENODEV));
  EXPECT_NE(guest_.control(kActivate), 0u) << "no shared region yet";
  EXPECT_NE(guest_.control(kUnquiesce), 0u);
  guest_.load_region();
  EXPECT_NE(guest_.command(Command::kCreatePd, abi::CreatePdRequest{}), 0u);
  EXPECT_EQ(guest_.control(kActivate), 0u);
  EXPECT_EQ(guest_.command(Command::kCreatePd, abi::CreatePdRequest{}), 0u);
  guest_.control(kReset);
  EXPECT_NE(guest_.command(Command::kCreatePd, abi::CreatePdRequest{}), 0u);
  EXPECT_EQ(guest_.adapter().info().device_counters.command_errors.not_ready, 3u);
}

TEST_F(AdapterTest, ANewRegionDropsTheOldDriver) {
  guest_.bring_up();
  guest_.create_pd();
  guest_.prepare_region();
  guest_.load_region();
  EXPECT_EQ(state(), AdapterState::kAttached);
  EXPECT_EQ(guest_.adapter().info().objects.pds, 0u);
  EXPECT_EQ(guest_.control(kActivate), 0u);
}

TEST_F(AdapterTest, ABadRegionDropsTheOldDriverToo) {
  guest_.bring_up();
  guest_.region.cq_ring_pages.num_pages = 0;
  guest_.load_region();
  EXPECT_EQ(state(), AdapterState::kDetached);
  EXPECT_NE(guest_.control(kActivate), 0u);
  EXPECT_EQ(guest_.adapter().info().device_counters.shared_region_errors, 1u);
}

TEST_F(AdapterTest, AVmmThatSharesNoMemoryIsNamedBeforeADriverTries) {
  guest_.connect();
  auto& adapter = guest_.adapter();
  EXPECT_EQ(adapter.info().trouble, "");
  ASSERT_EQ(adapter.dma_unmap(FakeGuest::kRamBase, 4u << 20), 0);
  EXPECT_EQ(adapter.info().trouble, "") << "the VMM may still send its memory";
  vfio_user::DmaMapRequest private_memory;
  private_memory.iova = FakeGuest::kRamBase;
  private_memory.size = 4u << 20;
  private_memory.readable = private_memory.writable = true;
  ASSERT_EQ(adapter.dma_map(private_memory, Fd()), 0);
  EXPECT_EQ(adapter.info().trouble, "the VMM shares no memory: memory-backend-memfd,share=on");
}

TEST_F(AdapterTest, AVmmThatSharesOtherMemoryThanTheGuestsIsNamedWhenADriverTries) {
  guest_.connect();
  guest_.prepare_region();
  auto& adapter = guest_.adapter();
  vfio_user::DmaMapRequest map;
  map.iova = FakeGuest::kRamBase + (1u << 30);
  map.size = 4u << 20;
  map.readable = map.writable = true;
  ASSERT_EQ(adapter.dma_map(map, Fd()), 0);
  EXPECT_EQ(adapter.info().trouble, "");
  guest_.set_command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
  guest_.write_register(abi::Register::kDsrLow, static_cast<std::uint32_t>(map.iova));
  guest_.write_register(abi::Register::kDsrHigh, 0);
  EXPECT_EQ(adapter.info().trouble, "the VMM shares no memory: memory-backend-memfd,share=on");
  guest_.load_region();
  EXPECT_EQ(adapter.info().trouble, "");
}

TEST_F(AdapterTest, ARefusedRegionIsShownUntilAGoodOne) {
  guest_.connect();
  guest_.prepare_region();
  const auto good = guest_.region;
  guest_.region = {};
  guest_.load_region();
  EXPECT_EQ(guest_.adapter().info().trouble,
            "the driver's shared region was refused: it is empty, as if the VMM had a private copy of the "
            "guest's memory: memory-backend-memfd,share=on");
  guest_.region = good;
  guest_.load_region();
  EXPECT_EQ(guest_.adapter().info().trouble, "");
}

TEST_F(AdapterTest, VmResetKeepsMapsAndEventfds) {
  guest_.bring_up();
  guest_.create_pd();
  guest_.interrupts(abi::Vector::kResponse);
  guest_.adapter().reset();
  EXPECT_EQ(state(), AdapterState::kDetached);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), 0u);
  EXPECT_EQ(guest_.read_register(abi::Register::kVersion), 18u);
  EXPECT_EQ(guest_.adapter().info().dma_map_count, 1u);
  guest_.load_region();
  EXPECT_EQ(guest_.control(kActivate), 0u);
  guest_.create_pd();
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 1u);
}

TEST_F(AdapterTest, WithoutBusMasteringADriverIsRefused) {
  guest_.connect();
  guest_.prepare_region();
  guest_.load_region();
  EXPECT_EQ(state(), AdapterState::kAttached);
  guest_.set_command(PCI_COMMAND_MEMORY);
  EXPECT_EQ(state(), AdapterState::kDetached);
  guest_.store(guest_.region_address, guest_.region);
  const std::vector<std::byte> before(guest_.ram().begin(), guest_.ram().end());
  guest_.write_register(abi::Register::kDsrHigh, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), static_cast<std::uint32_t>(EFAULT));
  EXPECT_EQ(state(), AdapterState::kDetached);
  EXPECT_TRUE(std::ranges::equal(before, guest_.ram()));
  EXPECT_EQ(guest_.adapter().info().trouble,
            "the driver's shared region was refused: the driver has not enabled bus mastering (PCI command "
            "register, bit 2)");
  guest_.load_region();
  EXPECT_EQ(state(), AdapterState::kAttached);
  EXPECT_EQ(guest_.adapter().info().trouble, "");
}

// Linux switches bus mastering off before a kexec.
TEST_F(AdapterTest, WithoutBusMasteringNothingIsWrittenOrSignalled) {
  guest_.bring_up();
  guest_.create_pd();
  guest_.create_cq();
  guest_.interrupts(abi::Vector::kResponse);
  guest_.set_command(PCI_COMMAND_MEMORY);
  EXPECT_EQ(state(), AdapterState::kDetached);
  EXPECT_EQ(guest_.adapter().info().objects.pds, 0u);
  const std::vector<std::byte> before(guest_.ram().begin(), guest_.ram().end());
  guest_.adapter().set_link(false);
  guest_.adapter().set_link(true);
  guest_.write_register(abi::Register::kRequest, 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kErr), static_cast<std::uint32_t>(ENODEV));
  guest_.adapter().run(guest_.clock.now());
  EXPECT_TRUE(std::ranges::equal(before, guest_.ram()));
  for (const abi::Vector vector :
       {abi::Vector::kResponse, abi::Vector::kAsyncEvent, abi::Vector::kNotification})
    EXPECT_EQ(guest_.interrupts(vector), 0u);

  guest_.set_command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
  EXPECT_EQ(state(), AdapterState::kDetached) << "as after a reset by the driver";
  guest_.load_region();
  EXPECT_EQ(guest_.control(kActivate), 0u);
  guest_.create_pd();
}

// A VMM that restores its VM writes the command register while the adapter is stopped.
TEST_F(AdapterTest, BusMasteringCountsWhenTheVmContinues) {
  guest_.bring_up();
  guest_.create_pd();
  guest_.adapter().stop();
  guest_.set_command(0);
  guest_.set_command(PCI_COMMAND_MEMORY | PCI_COMMAND_MASTER);
  guest_.adapter().go_on();
  EXPECT_EQ(state(), AdapterState::kActive);
  EXPECT_EQ(guest_.adapter().info().objects.pds, 1u);
  guest_.adapter().stop();
  guest_.set_command(PCI_COMMAND_MEMORY);
  guest_.adapter().go_on();
  EXPECT_EQ(state(), AdapterState::kDetached);
}

TEST_F(AdapterTest, DisconnectDropsEverythingAndTheNextVmStartsOver) {
  guest_.bring_up();
  guest_.create_cq();
  guest_.interrupts(abi::Vector::kResponse);
  guest_.adapter().disconnected("the test ends it");
  auto info = guest_.adapter().info();
  EXPECT_FALSE(info.connected);
  EXPECT_EQ(info.dma_map_count, 0u);
  EXPECT_EQ(info.dma_ram_bytes, 0u);
  EXPECT_EQ(info.objects.cqs, 0u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kResponse), 0u);
  guest_.bring_up();
  EXPECT_EQ(state(), AdapterState::kActive);
  EXPECT_EQ(guest_.adapter().info().device_counters.connections, 2u);
}

TEST_F(AdapterTest, DmaMapsComeAndGo) {
  guest_.connect();
  auto& adapter = guest_.adapter();
  vfio_user::DmaMapRequest rom;
  rom.iova = 0xc0000;
  rom.size = 0x1000;
  rom.readable = true;
  EXPECT_EQ(adapter.dma_map(rom, Fd()), 0) << "not RAM is remembered";
  EXPECT_EQ(adapter.dma_map(rom, Fd()), EEXIST);
  EXPECT_EQ(adapter.info().dma_ram_bytes, 4u << 20);
  EXPECT_EQ(adapter.dma_unmap(0xc0000, 0x800), EINVAL);
  EXPECT_EQ(adapter.dma_unmap(0xc0000, 0x1000), 0);
  EXPECT_EQ(adapter.dma_unmap(FakeGuest::kRamBase, 4u << 20), 0);
  EXPECT_EQ(adapter.info().dma_ram_bytes, 0u);
  EXPECT_EQ(adapter.info().dma_map_count, 0u);
}

TEST_F(AdapterTest, LinkChangesAreEvents) {
  guest_.connect();
  guest_.prepare_region();
  guest_.load_region();
  guest_.adapter().set_link(false);
  EXPECT_EQ(async_tail(), 0u) << "nothing before ACTIVATE";
  guest_.control(kActivate);
  guest_.adapter().set_link(false);
  EXPECT_EQ(async_tail(), 0u) << "no change, no event";
  guest_.adapter().set_link(true);
  EXPECT_EQ(async_tail(), 1u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kAsyncEvent), 1u);
  const auto event = guest_.load<abi::AsyncEvent>(guest_.async.at[1]);
  EXPECT_EQ(event.type, 9u);
  EXPECT_EQ(event.info, 1u);
}

// A QP in ERR flushes the guest's requests: CQEs, one notification for each ARM, vector 2.
TEST_F(AdapterTest, AFlushedSendNotifiesAnArmedCq) {
  guest_.bring_up();
  const std::uint32_t pd = guest_.create_pd();
  const auto cq = guest_.create_cq();
  const auto rings = guest_.pages(3);
  ASSERT_EQ(guest_.command(Command::kCreateQp, guest_.qp_request(pd, cq.handle, rings)), 0u);
  const std::uint32_t qp = guest_.response<abi::CreateQpResponse>().qpn;
  abi::ModifyQpRequest modify{};
  modify.qp_handle = qp;
  modify.attr_mask = 0x39;
  modify.attrs.qp_state = 1;
  modify.attrs.port_num = 1;
  ASSERT_EQ(guest_.command(Command::kModifyQp, modify), 0u);
  guest_.store(rings.at[0] + 8, std::uint32_t{3});  // rx.prod_tail: three receives
  guest_.write32(2, 4, 1u << 30 | cq.handle);
  modify.attr_mask = 1;
  modify.attrs.qp_state = 6;
  ASSERT_EQ(guest_.command(Command::kModifyQp, modify), 0u);
  guest_.adapter().run(guest_.clock.now());
  EXPECT_EQ(guest_.load<abi::RingState>(cq.pages.at[0]).rx.prod_tail, 3u);
  EXPECT_EQ(guest_.interrupts(abi::Vector::kNotification), 1u);
  EXPECT_EQ(notification_tail(), 1u);
  EXPECT_EQ(guest_.load<abi::Notification>(guest_.notifications.at[1]).info, cq.handle);
  // After a reset its memory is not written, whatever doorbells ring.
  guest_.control(kReset);
  guest_.write32(2, 4, 1u << 30 | cq.handle);
  guest_.adapter().run(guest_.clock.now());
  EXPECT_EQ(notification_tail(), 1u);
}

TEST_F(AdapterTest, HeldBackEventsGiveADeadline) {
  guest_.bring_up();
  EXPECT_EQ(guest_.adapter().next_deadline(), Instant::never());
  log::set_level(log::Level::kWarn);
  for (int i = 0; i < 513; ++i) guest_.adapter().set_link(i % 2 != 0);
  log::set_level(log::Level::kInfo);
  EXPECT_EQ(async_tail(), 512u);
  EXPECT_NE(guest_.adapter().next_deadline(), Instant::never());
  auto state = guest_.load<abi::RingState>(guest_.async.at[0]);
  state.rx.cons_head = 512;
  guest_.store(guest_.async.at[0], state);
  guest_.clock.set(std::max(guest_.clock.now(), guest_.adapter().next_deadline()));
  guest_.adapter().on_time(guest_.clock.now());
  EXPECT_EQ(async_tail(), 513u);
  EXPECT_EQ(guest_.adapter().next_deadline(), Instant::never());
}

TEST_F(AdapterTest, PostedRegisterWritesAreCountedAndWork) {
  guest_.connect();
  const std::uint32_t mask = 0xffff'ffff;
  EXPECT_EQ(guest_.adapter().region_write(1, 0x1c, std::as_bytes(std::span(&mask, 1)), true), 0);
  EXPECT_EQ(guest_.read_register(abi::Register::kImr), 0xffff'ffffu);
  EXPECT_EQ(guest_.adapter().info().device_counters.posted_register_writes, 1u);
}

TEST_F(AdapterTest, ErrVectorTakesAnEventfdOthersDoNot) {
  auto& adapter = guest_.adapter();
  EXPECT_EQ(adapter.set_irq_eventfd(3, 0, Fd(::eventfd(0, 0))), 0);
  EXPECT_EQ(adapter.set_irq_eventfd(0, 0, Fd(::eventfd(0, 0))), EINVAL);
  EXPECT_EQ(adapter.set_irq_eventfd(2, 3, Fd(::eventfd(0, 0))), EINVAL);
  EXPECT_EQ(adapter.disable_irqs(2), 0);
  EXPECT_EQ(adapter.disable_irqs(0), 0);
}

TEST_F(AdapterTest, MemoryTakenAwayStopsTheAdapterUntilTheNextVm) {
  ASSERT_TRUE(guestmem::install_sigbus_handler());
  guest_.bring_up();
  guest_.create_cq();
  guest_.truncate_ram(4096);
  guest_.write_register(abi::Register::kRequest, 0);  // accesses the command slot, which is gone
  std::uint32_t value = 0;
  EXPECT_EQ(guest_.adapter().region_read(1, 0, std::as_writable_bytes(std::span(&value, 1))), EIO);
  EXPECT_EQ(guest_.write32(1, 0x1c, 0), EIO);
  EXPECT_EQ(guest_.write32(2, 0, 1u << 30 | 5), EIO);
  EXPECT_FALSE(guest_.adapter().run(guest_.clock.now()));
  EXPECT_EQ(state(), AdapterState::kFailed);
  EXPECT_EQ(guest_.adapter().info().objects.cqs, 0u);
  guest_.adapter().reset();
  EXPECT_EQ(state(), AdapterState::kFailed);
  guest_.adapter().disconnected("gone");
  guest_.truncate_ram(4u << 20);
  guest_.bring_up();
  EXPECT_EQ(state(), AdapterState::kActive);
}

}  // namespace
}  // namespace pvrdma::device
