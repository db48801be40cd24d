// One test for each of the eleven CVEs of QEMU's former PVRDMA device. Each does to this device what the
// CVE's guest did, while two correct guests go on (docs/device.md 9.4).
#include <cstring>
#include <filesystem>

#include "device_test.h"
#include "support/open_fds.h"

namespace pvrdma::test {
namespace {

using abi::Command;
using driver::Region;

TestbenchOptions four_small_adapters() {
  TestbenchOptions options{.adapter_count = 4};
  options.limits = verbs::Limits{.max_cq = 64, .max_qp = 64};
  return options;
}

class QemuCve : public DeviceTest {
 protected:
  QemuCve() : DeviceTest(four_small_adapters()) {}

  void SetUp() override {
    honest_a_ = std::make_unique<RcEndpoint>(device(1), gid_of(1));
    honest_b_ = std::make_unique<RcEndpoint>(device(2), gid_of(2));
    must(connect(*honest_a_, *honest_b_));
  }
  void TearDown() override {
    honest_guests_work();
    EXPECT_TRUE(device(0).query_port()) << "a sound driver finds a sound adapter";
    honest_a_.reset();
    honest_b_.reset();
    DeviceTest::TearDown();
  }

  void honest_guests_work() {
    honest_a_->fill(0, 9000, 7);
    const Sge sge = honest_a_->sge(0, 9000);
    ASSERT_TRUE(honest_a_->qp->post_send(wr::write(1, one(sge), honest_b_->remote())).ok());
    ASSERT_TRUE(await_one(*honest_a_->send_cq).ok());
    EXPECT_TRUE(honest_b_->holds(0, 9000, 7));
  }

  driver::CommandChannel& commands() { return device(0).commands(); }
  std::uint32_t error_of(Command command, auto request) {
    request.hdr.cmd = static_cast<std::uint32_t>(command);
    return must(commands().submit(std::as_bytes(std::span(&request, 1))));
  }

  std::unique_ptr<RcEndpoint> honest_a_;
  std::unique_ptr<RcEndpoint> honest_b_;
};

// A guest of adapter 0 that announces its own shared regions.
class QemuCveProbe : public QemuCve {
 protected:
  void SetUp() override {
    QemuCve::SetUp();
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
    QemuCve::TearDown();
  }

  void write(abi::Register reg, std::uint32_t value) {
    must(bus_->region_write32(Region::kRegisters, static_cast<std::uint64_t>(reg), value));
  }
  std::uint32_t error() {
    return must(bus_->region_read32(Region::kRegisters, static_cast<std::uint64_t>(abi::Register::kErr)));
  }
  void announce(std::uint64_t address) {
    write(abi::Register::kDsrLow, static_cast<std::uint32_t>(address));
    write(abi::Register::kDsrHigh, static_cast<std::uint32_t>(address >> 32));
  }
  bool activates() {
    write(abi::Register::kCtl, 0);
    return error() == 0;
  }
  bool accepts_command() {
    const abi::QueryPortRequest query{.port_num = 1};
    std::memcpy(region_->command_slot().data(), &query, sizeof(query));
    write(abi::Register::kRequest, 0);
    return error() == 0;
  }
  bool attaches() {
    announce(region_->gpa().value);
    return activates() && accepts_command();
  }

  std::unique_ptr<driver::VfioUserBus> bus_;
  std::unique_ptr<driver::GuestRam> ram_;
  std::unique_ptr<driver::SharedRegion> region_;
};

TEST_F(QemuCve, cve_2018_20123_an_adapter_that_cannot_start_leaves_nothing_behind) {
  ASSERT_TRUE(eventually([&] { return host_.reaper().busy_queues() == 0; }));
  const std::size_t before = count_open_fds();
  host_.on_shard(3, [&](adapters::ServedAdapter& served) {
    SteadyClock clock;
    transport::Local local;
    fabric::Transports transports;
    transports.use(local);
    fabric::HostGids host(1);
    fabric::Switch elsewhere(transport::SegmentId{}, transports, clock, host);
    const auto loop = must(shard::Loop::create({}, clock));
    const auto can_be_made = [&](const device::AdapterConfig& config, const std::string& socket) {
      return adapters::ServedAdapter::create({.device = config, .socket = socket}, elsewhere,
                                             {.loop = *loop, .clock = clock}, nullptr)
          .has_value();
    };
    device::AdapterConfig odd = adapter_config(3, options_);
    odd.limits = verbs::Limits{.max_context = 3};
    const std::string free_path = served.socket() + "2";
    for (int i = 0; i < 50; ++i) {
      EXPECT_FALSE(can_be_made(adapter_config(3, options_), served.socket())) << "the socket is another's";
      EXPECT_FALSE(can_be_made(adapter_config(3, options_), "/nowhere/a.sock"));
      EXPECT_FALSE(can_be_made(odd, free_path));
      EXPECT_FALSE(std::filesystem::exists(free_path));
    }
  });
  EXPECT_TRUE(eventually([&] { return count_open_fds() == before; }))
      << count_open_fds() << ", before " << before;
}

TEST_F(QemuCve, cve_2018_20124_more_sges_than_the_array_has) {
  RcEndpoint guest(device(0), gid_of(0));
  RcEndpoint peer(device(1), gid_of(1));
  for (const std::uint32_t count : {5u, 33u, 0x7fff'ffffu, 0xffff'ffffu}) {
    SCOPED_TRACE(count);
    must(connect(guest, peer, {.timeout = 8, .retry_cnt = 1}));
    std::byte* element = nullptr;
    ASSERT_EQ(guest.qp->send_ring().begin(element), driver::RingStatus::kReady);
    abi::SendWqeHeader header{};
    header.num_sge = count;
    header.opcode = static_cast<std::uint32_t>(abi::Opcode::kSend);
    std::memcpy(element, &header, sizeof(header));
    guest.qp->send_ring().commit();
    must(guest.qp->ring_doorbell(abi::kQpDoorbellSend));
    EXPECT_EQ(await_one(*guest.send_cq).status, Status::kLocalQpOperation);
    must(guest.qp->to_reset());
    must(peer.qp->to_reset());
  }
}

TEST_F(QemuCve, cve_2018_20125_page_counts_that_do_not_carry_the_ring) {
  const auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  const auto cq = must(driver::CompletionQueue::create(device(0).kernel(), 64));
  const auto pages = must(device(0).ram().allocate(16 * 4096));
  const auto directory = must(driver::PageDirectory::of(device(0).ram(), pages->pages()));
  for (const std::uint32_t count : {0u, 1u}) {
    EXPECT_NE(error_of(Command::kCreateCq,
                       abi::CreateCqRequest{.pdir_dma = directory->gpa().value, .cqe = 64, .nchunks = count}),
              0u);
  }
  EXPECT_NE(error_of(Command::kCreateCq,
                     abi::CreateCqRequest{
                         .pdir_dma = directory->gpa().value, .cqe = 0x8000'0000, .nchunks = 0xffff'ffff}),
            0u);
  for (const std::uint16_t total : std::array<std::uint16_t, 4>{0, 1, 2, 0xffff}) {
    for (const std::uint16_t send : std::array<std::uint16_t, 3>{0, 1, 0xffff}) {
      EXPECT_NE(error_of(Command::kCreateQp, abi::CreateQpRequest{.pdir_dma = directory->gpa().value,
                                                                  .pd_handle = pd->handle(),
                                                                  .send_cq_handle = cq->handle(),
                                                                  .recv_cq_handle = cq->handle(),
                                                                  .max_send_wr = 64,
                                                                  .max_recv_wr = 64,
                                                                  .max_send_sge = 1,
                                                                  .max_recv_sge = 1,
                                                                  .total_chunks = total,
                                                                  .send_chunks = send,
                                                                  .qp_type = 2}),
                0u)
          << total << " pages, " << send << " of them to send from";
    }
  }
}

TEST_F(QemuCve, cve_2018_20126_refused_queues_leave_no_object_and_no_number_taken) {
  const auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  const auto cq = must(driver::CompletionQueue::create(device(0).kernel(), 64));
  const auto before = host_.info(0).objects;
  const std::uint32_t attempts = device(0).caps().max_qp + device(0).caps().max_cq;
  for (std::uint32_t i = 0; i < attempts; ++i) {
    ASSERT_NE(error_of(Command::kCreateCq, abi::CreateCqRequest{.pdir_dma = 0x7000, .cqe = 64, .nchunks = 2}),
              0u);
    ASSERT_NE(error_of(Command::kCreateQp, abi::CreateQpRequest{.pdir_dma = 0x7000,
                                                                .pd_handle = pd->handle(),
                                                                .send_cq_handle = cq->handle(),
                                                                .recv_cq_handle = cq->handle(),
                                                                .max_send_wr = 64,
                                                                .max_recv_wr = 64,
                                                                .max_send_sge = 1,
                                                                .max_recv_sge = 1,
                                                                .total_chunks = 4,
                                                                .send_chunks = 2,
                                                                .qp_type = 2}),
              0u);
  }
  const auto after = host_.info(0).objects;
  EXPECT_EQ(after.qps, before.qps);
  EXPECT_EQ(after.cqs, before.cqs);
  RcEndpoint still_possible(device(0), gid_of(0));
}

TEST_F(QemuCve, cve_2018_20191_reading_the_doorbell_page) {
  for (const std::size_t width : {1u, 2u, 3u, 4u, 8u, 64u, 4096u}) {
    std::vector<std::byte> bytes(width);
    must(device(0).bus().region_read(Region::kUar, 0, bytes));
    for (const std::byte byte : bytes) ASSERT_EQ(byte, std::byte{0xff});
  }
}

TEST_F(QemuCve, cve_2018_20216_ring_indices_that_say_there_is_always_more) {
  RcEndpoint guest(device(0), gid_of(0));
  RcEndpoint peer(device(1), gid_of(1));
  for (const std::uint32_t index : {128u, 0x8000'0000u, 0xffff'ffffu}) {
    must(connect(guest, peer, {.timeout = 8, .retry_cnt = 1}));
    guest.qp->send_ring().state().set_tail(index);
    must(guest.qp->ring_doorbell(abi::kQpDoorbellSend));
    EXPECT_EQ(must(guest.qp->query()).qp_state, static_cast<std::uint32_t>(abi::QpState::kErr)) << index;
    must(guest.qp->to_reset());
    must(peer.qp->to_reset());
  }
  EXPECT_EQ(host_.info(0).verbs_counters.invalid_ring_indices, 3u);
}

TEST_F(QemuCve, cve_2021_3582_a_region_longer_than_its_pages) {
  const auto pd = must(driver::ProtectionDomain::create(device(0).kernel()));
  const auto pages = must(device(0).ram().allocate(4 * 4096));
  const auto directory = must(driver::PageDirectory::of(device(0).ram(), pages->pages()));
  for (const std::uint64_t length :
       {std::uint64_t{4 * 4096 + 1}, std::uint64_t{1} << 30, ~std::uint64_t{0}}) {
    EXPECT_NE(error_of(Command::kCreateMr, abi::CreateMrRequest{.start = 0x10000,
                                                                .length = length,
                                                                .pdir_dma = directory->gpa().value,
                                                                .pd_handle = pd->handle(),
                                                                .access_flags = 1,
                                                                .nchunks = 4}),
              0u)
        << length;
  }
}

TEST_F(QemuCveProbe, cve_2021_3607_ring_page_counts_of_the_shared_region) {
  for (const std::uint32_t pages : {0u, 1u, 513u, 0x8000'0000u, 0xffff'ffffu}) {
    const abi::DeviceSharedRegion good = region_->raw();
    region_->raw().async_ring_pages.num_pages = pages;
    EXPECT_FALSE(attaches()) << pages;
    region_->raw() = good;
    region_->raw().cq_ring_pages.num_pages = pages;
    EXPECT_FALSE(attaches()) << pages;
    region_->raw() = good;
  }
  EXPECT_TRUE(attaches());
}

TEST_F(QemuCveProbe, cve_2021_3608_a_ring_whose_last_page_is_no_memory) {
  const abi::DeviceSharedRegion good = region_->raw();
  for (int round = 0; round < 100; ++round) {
    // The first pages of a directory exist and a later one does not. What was set up must be released.
    const auto pages = must(ram_->allocate(4 * 4096));
    const auto directory = must(driver::PageDirectory::of(*ram_, pages->pages()));
    directory->set(3, driver::GuestPhys(~0ULL << 12));
    region_->raw().async_ring_pages.pdir_dma = directory->gpa().value;
    EXPECT_FALSE(attaches());
    region_->raw() = good;
  }
  EXPECT_TRUE(attaches());
}

TEST_F(QemuCveProbe, cve_2022_1050_commands_without_a_shared_region) {
  EXPECT_FALSE(accepts_command());
  ASSERT_TRUE(attaches());
  announce(0);  // makes the earlier region invalid
  EXPECT_FALSE(accepts_command());
  ASSERT_TRUE(attaches());
  must(bus_->dma_unmap(ram_->base().value, ram_->size_bytes()));
  EXPECT_FALSE(accepts_command());
  must(bus_->dma_map(ram_->base().value, ram_->size_bytes(), ram_->fd(), 0));
}

TEST_F(QemuCveProbe, cve_2023_1544_a_ring_of_more_pages_than_one_table_names) {
  const auto pages = must(ram_->allocate(4096));
  const auto directory = must(driver::PageDirectory::of(*ram_, pages->pages()));
  region_->raw().async_ring_pages = {.num_pages = 512 + 4, .reserved = 0, .pdir_dma = directory->gpa().value};
  EXPECT_FALSE(attaches());
  region_->raw().async_ring_pages = {.num_pages = 512, .reserved = 0, .pdir_dma = directory->gpa().value};
  EXPECT_FALSE(attaches()) << "511 entries of the table name nothing";
}

}  // namespace
}  // namespace pvrdma::test
