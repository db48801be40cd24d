// Doorbell pages that the device lets its client map. Over both buses, the tests check which accesses become
// loads and stores and which stay messages. They also check that an adapter in trapped mode, which offers
// only the page after its doorbells, receives each doorbell.
#include <atomic>
#include <cerrno>
#include <filesystem>
#include <poll.h>
#include <string>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "device_test.h"
#include "support/in_process_bus.h"
#include "vfio_user/server.h"

namespace pvrdma::test {
namespace {

using driver::AreaUse;
using driver::Region;

constexpr std::uint64_t kPage = abi::kUarPageBytes;
constexpr std::uint32_t kUarPages = 4;
constexpr std::uint32_t kMessageRead = 0x5a5a'5a5a;  // the fake device's answer to a read

// A device that has only doorbell pages. All except page 0 may be mapped. It counts the messages.
class FakeDevice final : public vfio_user::Handler {
 public:
  std::atomic<std::uint32_t> reads{0};
  std::atomic<std::uint32_t> writes{0};
  std::atomic<std::uint64_t> last_offset{0};
  vfio_user::MmapArea area{kPage, kUarPages* kPage};

  FakeDevice() : memory_(::memfd_create("doorbells", MFD_CLOEXEC)) {
    if (::ftruncate(memory_.get(), 2 * kUarPages * kPage) != 0) throw std::runtime_error("no memory");
  }
  // The word at `offset` of the exported memory.
  std::uint32_t word(std::uint64_t offset) const {
    std::uint32_t value = 0;
    EXPECT_EQ(::pread(memory_.get(), &value, sizeof(value), static_cast<off_t>(offset)), 4);
    return value;
  }

  std::uint32_t region_count() const override { return 9; }
  std::uint32_t irq_index_count() const override { return 5; }
  std::uint32_t irq_count(std::uint32_t) const override { return 0; }
  vfio_user::RegionInfo region_info(std::uint32_t region) const override {
    if (region != static_cast<std::uint32_t>(Region::kUar)) return {};
    return {.size = 2 * kUarPages * kPage,
            .readable = true,
            .writable = true,
            .mmap_areas = {area},
            .fd = memory_.get()};
  }
  int region_read(std::uint32_t, std::uint64_t offset, std::span<std::byte> out) override {
    ++reads;
    last_offset = offset;
    std::fill(out.begin(), out.end(), std::byte{kMessageRead & 0xff});
    return 0;
  }
  int region_write(std::uint32_t, std::uint64_t offset, std::span<const std::byte>, bool) override {
    ++writes;
    last_offset = offset;
    return 0;
  }
  int set_irq_eventfd(std::uint32_t, std::uint32_t, ClientFd) override { return EINVAL; }
  int disable_irqs(std::uint32_t) override { return EINVAL; }
  int dma_map(const vfio_user::DmaMapRequest&, ClientFd) override { return EINVAL; }
  int dma_unmap(std::uint64_t, std::uint64_t) override { return EINVAL; }
  void dma_unmap_all() override {}
  void reset() override {}
  void connected() override {}
  void disconnected(std::string_view) override {}

 private:
  const Fd memory_;
};

// Serves a device on a socket, on its own thread.
class ServingThread {
 public:
  explicit ServingThread(vfio_user::Handler& device) : stopping_(::eventfd(0, EFD_CLOEXEC)) {
    directory_ = (std::filesystem::temp_directory_path() / "pvrdma-test-XXXXXX").string();
    if (::mkdtemp(directory_.data()) == nullptr) throw std::runtime_error("no temporary directory");
    server_ = must(vfio_user::Server::listen(socket(), device));
    thread_ = std::thread([this] { serve(); });
  }
  ~ServingThread() {
    const std::uint64_t one = 1;
    EXPECT_EQ(::write(stopping_.get(), &one, sizeof(one)), 8);
    thread_.join();
    server_.reset();
    std::filesystem::remove_all(directory_);
  }
  std::string socket() const { return directory_ + "/adapter.sock"; }

 private:
  void serve() {
    while (true) {
      pollfd fds[3] = {
          {stopping_.get(), POLLIN, 0},
          {server_->listen_fd(), POLLIN, 0},
          {server_->seat().fd(), static_cast<short>(server_->seat().wants_write() ? POLLOUT : POLLIN), 0}};
      ::poll(fds, 3, -1);
      if (fds[0].revents != 0) return;
      if (fds[1].revents != 0) server_->on_listen_ready();
      if (fds[2].revents != 0) server_->seat().on_ready(true, true);
      while (server_->seat().has_more()) server_->seat().continue_session();
    }
  }

  std::string directory_;
  const Fd stopping_;
  std::unique_ptr<vfio_user::Server> server_;
  std::thread thread_;
};

enum class Kind { kSocket, kInProcess };

class MappedDoorbells : public testing::TestWithParam<Kind> {
 protected:
  std::unique_ptr<driver::Bus> connect(AreaUse use = AreaUse::kMapped) {
    if (GetParam() == Kind::kInProcess) return std::make_unique<InProcessBus>(device_, use);
    server_.emplace(device_);
    return must(driver::VfioUserBus::connect(server_->socket(), kPatience, use));
  }

  FakeDevice device_;
  std::optional<ServingThread> server_;
};

INSTANTIATE_TEST_SUITE_P(Buses, MappedDoorbells, testing::Values(Kind::kSocket, Kind::kInProcess),
                         [](const auto& each) {
                           return each.param == Kind::kSocket ? "vfio_user" : "in_process";
                         });

TEST_P(MappedDoorbells, are_stores_that_the_device_is_not_told_of) {
  const auto bus = connect();
  for (std::uint32_t page = 1; page <= kUarPages; ++page) {
    for (const std::uint32_t at : {0u, 4u, 8u, 4092u}) {
      must(bus->region_write32(Region::kUar, page * kPage + at, page << 16 | at));
      EXPECT_EQ(device_.word(page * kPage + at), page << 16 | at);
      EXPECT_EQ(must(bus->region_read32(Region::kUar, page * kPage + at)), page << 16 | at);
    }
  }
  const std::uint32_t words[] = {1, 2, 3};
  must(bus->region_write(Region::kUar, 2 * kPage, std::as_bytes(std::span(words))));
  EXPECT_EQ(device_.word(2 * kPage + 8), 3u);
  EXPECT_EQ(device_.writes, 0u);
  EXPECT_EQ(device_.reads, 0u);
}

TEST_P(MappedDoorbells, of_page_0_and_behind_the_last_stay_messages) {
  const auto bus = connect();
  std::uint32_t told = 0;
  for (const std::uint64_t at : {std::uint64_t{0}, kPage - 4, (kUarPages + 1) * kPage}) {
    must(bus->region_write32(Region::kUar, at, 7));
    EXPECT_EQ(device_.writes, ++told);
    EXPECT_EQ(device_.last_offset, at);
    EXPECT_EQ(device_.word(at), 0u);
    EXPECT_EQ(must(bus->region_read32(Region::kUar, at)), kMessageRead);
    EXPECT_EQ(device_.reads, told);
  }
}

TEST_P(MappedDoorbells, are_messages_where_a_write_crosses_an_areas_border) {
  const auto bus = connect();
  const std::uint32_t words[] = {1, 2};
  must(bus->region_write(Region::kUar, kPage - 4, std::as_bytes(std::span(words))));
  must(bus->region_write(Region::kUar, (kUarPages + 1) * kPage - 4, std::as_bytes(std::span(words))));
  EXPECT_EQ(device_.writes, 2u);
  EXPECT_EQ(device_.word(kPage), 0u);
}

TEST_P(MappedDoorbells, are_messages_for_a_bus_that_is_told_so) {
  const auto bus = connect(AreaUse::kTrapped);
  must(bus->region_write32(Region::kUar, kPage, 7));
  EXPECT_EQ(device_.writes, 1u);
  EXPECT_EQ(device_.word(kPage), 0u);
  EXPECT_EQ(must(bus->region_read32(Region::kUar, kPage)), kMessageRead);
}

TEST_P(MappedDoorbells, are_nobodys_when_the_connection_has_ended) {
  const auto bus = connect();
  if (GetParam() == Kind::kSocket) {
    static_cast<driver::VfioUserBus&>(*bus).disconnect();
  } else {
    static_cast<InProcessBus&>(*bus).kill();
  }
  EXPECT_EQ(code_of(bus->region_read32(Region::kUar, kPage)), ENOTCONN);
  EXPECT_FALSE(bus->region_write32(Region::kUar, kPage, 7));
  EXPECT_EQ(device_.word(kPage), 0u);
}

TEST(VfioUserBusTest, refuses_a_device_that_contradicts_itself) {
  FakeDevice device;
  device.area = {kPage, 2 * kUarPages * kPage};
  const ServingThread server(device);
  const auto bus = driver::VfioUserBus::connect(server.socket(), kPatience);
  ASSERT_FALSE(bus);
  EXPECT_NE(bus.error().message.find("outside its region"), std::string::npos) << bus.error().message;
  EXPECT_TRUE(driver::VfioUserBus::connect(server.socket(), kPatience, AreaUse::kTrapped));
}

// In trapped mode the adapter exports only the page after its doorbells (docs/device.md 8.5).
class TrappedAdapter : public DeviceTest, public testing::WithParamInterface<AreaUse> {
 protected:
  std::uint64_t doorbells_heard() { return host_.info(0).device_counters.doorbells; }
};

INSTANTIATE_TEST_SUITE_P(AreaUses, TrappedAdapter, testing::Values(AreaUse::kMapped, AreaUse::kTrapped),
                         [](const auto& each) {
                           return each.param == AreaUse::kMapped ? "mapped" : "trapped";
                         });

TEST_P(TrappedAdapter, hears_each_doorbell_of_each_page) {
  auto device = must(
      driver::Device::open(must(driver::VfioUserBus::connect(host_.socket_path(0), kPatience, GetParam()))));
  const std::uint32_t pages = device->caps().max_uar;
  for (const std::uint64_t page : {0u, 1u, pages - 1}) {
    const std::uint64_t before = doorbells_heard();
    must(device->bus().region_write32(Region::kUar, page * kPage, 0xffffff | abi::kQpDoorbellSend));
    EXPECT_EQ(doorbells_heard(), before + 1) << "page " << page;
  }
}

TEST_P(TrappedAdapter, lets_its_exported_page_be_written_to_no_effect) {
  auto device = must(
      driver::Device::open(must(driver::VfioUserBus::connect(host_.socket_path(0), kPatience, GetParam()))));
  const std::uint64_t exported = device->caps().max_uar * kPage;
  const auto before = host_.info(0).device_counters;
  must(device->bus().region_write32(Region::kUar, exported, 0xffffff | abi::kQpDoorbellSend));
  const auto after = host_.info(0).device_counters;
  EXPECT_EQ(after.doorbells, before.doorbells);
  EXPECT_EQ(after.bad_accesses, before.bad_accesses + (GetParam() == AreaUse::kTrapped ? 1 : 0));
}

}  // namespace
}  // namespace pvrdma::test
