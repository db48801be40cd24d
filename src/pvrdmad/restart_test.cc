// A daemon ends, and another one continues with its adapters, from the descriptors that a service manager
// kept.
#include <array>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <thread>
#include <unistd.h>

#include "base/fd.h"
#include "guestmem/address_space.h"
#include "keep/fake_manager.h"
#include "keep/memory_file.h"
#include "pvrdmad/daemon.h"
#include "support/log_of.h"
#include "vfio_user/client.h"

namespace pvrdma::daemon {
namespace {

namespace fs = std::filesystem;
using pvrdma::test::log_of;
using testing::Contains;
using testing::Each;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;
using testing::StartsWith;

constexpr std::uint32_t kConfigRegion = 7;
constexpr std::uint64_t kBar0 = 0x10;

class RestartTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    config_.daemon.api_socket = folder_ + "/api.sock";
    for (std::uint8_t i = 1; i <= 2; ++i) {
      const std::string name = "VM-0" + std::to_string(i);
      config_.adapters.push_back(
          {name, folder_ + "/" + name, {0x52, 0x54, 0, 0, 0, i}, HardwareVersion::k14, RoceVersion::kV2});
    }
  }
  void TearDown() override {
    daemon_.reset();
    store_.reset();
    fs::remove_all(folder_);
  }

  void start() {
    store_ = keep::DescriptorStore::from_environment().value();
    ASSERT_NE(store_, nullptr);
    daemon_ = Daemon::create(config_, "1.2.3", nullptr, store_.get()).value();
    ASSERT_TRUE(daemon_->start());
  }
  void stop() {
    daemon_.reset();
    store_.reset();
  }
  void restart(keep::FakeManager& manager) {
    stop();
    manager.give_back();
    start();
  }
  std::unique_ptr<vfio_user::Client> connect(std::size_t adapter) {
    return vfio_user::Client::connect(config_.adapters[adapter].socket).value();
  }
  static bool write_bar(vfio_user::Client& client, std::uint32_t value) {
    return client.region_write(kConfigRegion, kBar0, std::as_bytes(std::span(&value, 1))).has_value();
  }
  static std::uint32_t read_bar(vfio_user::Client& client) {
    std::uint32_t value = 0;
    const auto read = client.region_read(kConfigRegion, kBar0, std::as_writable_bytes(std::span(&value, 1)));
    return read ? value : 0;
  }
  // Waits, for example until the keeper's thread has recorded the adapters.
  static bool wait_for(const std::function<bool()>& holds) {
    const Instant deadline = Instant::now() + std::chrono::seconds(20);
    while (!holds()) {
      if (Instant::now() > deadline) return false;
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return true;
  }

  const std::string folder_ = testing::TempDir() + "restart_" + std::to_string(::getpid());
  const std::string manager_path_ = testing::TempDir() + "restart_manager_" + std::to_string(::getpid());
  control::Config config_;
  std::unique_ptr<keep::DescriptorStore> store_;
  std::unique_ptr<Daemon> daemon_;
};

TEST_F(RestartTest, TheNextDaemonGoesOnWithTheClient) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto client = connect(0);
  for (std::uint32_t round = 1; round < 4; ++round) {
    ASSERT_TRUE(write_bar(*client, round << 20));
    restart(manager);
    EXPECT_EQ(read_bar(*client), round << 20);
  }
}

// As a VM has whose memory a virtio-mem device shares in blocks.
TEST_F(RestartTest, AClientWithAsManyMapsOfMemoryAsItMayHaveGoesOn) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto client = connect(0);
  const std::uint64_t size = guestmem::kMaxRamMaps * guestmem::kPageBytes;
  {
    const Fd memory(::memfd_create("memory", MFD_CLOEXEC));
    ASSERT_EQ(::ftruncate(memory.get(), static_cast<off_t>(size)), 0);
    for (std::uint64_t at = 0; at < size; at += guestmem::kPageBytes)
      ASSERT_TRUE(client->dma_map(
          {.iova = at, .size = guestmem::kPageBytes, .fd_offset = at, .readable = true, .writable = true},
          memory.get()));
  }
  ASSERT_TRUE(write_bar(*client, 1u << 20));
  EXPECT_THAT(log_of([&] { restart(manager); }), Not(HasSubstr("loses this adapter")));
  EXPECT_EQ(
      std::ranges::count_if(manager.names(), [](const auto& name) { return name.starts_with("VM-01/"); }), 6)
      << "listener, counter, record, socket, doorbell memory, and one descriptor for all maps";
  EXPECT_EQ(read_bar(*client), 1u << 20);
  EXPECT_TRUE(client->dma_unmap(0, size));
  EXPECT_FALSE(client->dma_unmap(0, size)) << "nothing is left";
}

// A changed configuration applies from the VM's next power-on.
TEST_F(RestartTest, AClientGoesOnWithWhatItWasTold) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto client = connect(0);
  ASSERT_TRUE(write_bar(*client, 1u << 20));
  const std::vector<std::function<void(control::AdapterConfig&)>> changes{
      [](auto& adapter) { adapter.mtu = NetworkMtu{9000}; }, [](auto& adapter) { adapter.budgets.qps = 10; },
      [](auto& adapter) { adapter.hardware_version = HardwareVersion::k17; },
      [](auto& adapter) { adapter.roce = RoceVersion::kV1; },
      [](auto& adapter) { adapter.profile = Profile::kEsxi; }};
  for (const auto& change : changes) {
    change(config_.adapters[0]);
    EXPECT_THAT(log_of([&] { restart(manager); }), HasSubstr("VM-01: its guest keeps its earlier settings"));
    EXPECT_EQ(read_bar(*client), 1u << 20);
  }
}

TEST_F(RestartTest, WhoConnectsWhileNobodyServesWaits) {
  keep::FakeManager manager(manager_path_);
  start();
  stop();
  ASSERT_TRUE(fs::is_socket(config_.adapters[1].socket));
  manager.give_back();  // before any other socket, which could get a descriptor number that it gives back
  std::thread connects([this] {
    const auto client = connect(1);
    EXPECT_TRUE(write_bar(*client, 1u << 20));
  });
  start();
  connects.join();
}

TEST_F(RestartTest, AClientThatLeavesIsKeptNoLonger) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto of_first = [&manager] {
    const auto names = manager.names();
    return std::ranges::count_if(names, [](const auto& name) { return name.starts_with("VM-01/"); });
  };
  ASSERT_TRUE(wait_for([&] { return of_first() == 3; })) << "listener, counter, record";
  auto client = connect(0);
  ASSERT_TRUE(wait_for([&] { return of_first() == 5; })) << "and its socket and doorbell memory";
  client.reset();
  ASSERT_TRUE(wait_for([&] { return of_first() == 3; }));
}

TEST_F(RestartTest, AnAdapterThatIsNotConfiguredAnyMoreIsForgotten) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto client = connect(1);
  stop();
  config_.adapters.pop_back();
  manager.give_back();
  start();
  EXPECT_TRUE(wait_for([&] {
    const auto names = manager.names();
    return !names.empty() &&
           std::ranges::none_of(names, [](const auto& name) { return name.starts_with("VM-02/"); });
  }));
  std::array<std::byte, 4> word{};
  EXPECT_FALSE(client->region_read(kConfigRegion, 0, word));
  EXPECT_FALSE(fs::exists(folder_ + "/VM-02")) << "its socket";
}

TEST_F(RestartTest, WhatCannotBeReadCostsItsAdapterAlone) {
  keep::FakeManager manager(manager_path_);
  start();
  const auto first = connect(0);
  const auto second = connect(1);
  ASSERT_TRUE(write_bar(*second, 1u << 20));
  stop();
  for (const std::string& name : manager.names()) {
    if (name.starts_with("VM-01/record/"))
      manager.store(name, *keep::to_memory_file(std::vector<std::byte>(100)));
  }
  manager.store("nonsense", *keep::to_memory_file({}));
  manager.store("VM-01/nonsense", *keep::to_memory_file({}));
  manager.give_back();
  const std::string log = log_of([this] { start(); });
  EXPECT_THAT(log, HasSubstr("adapter VM-01: its kept state cannot be used"));
  EXPECT_EQ(read_bar(*second), 1u << 20);
  EXPECT_TRUE(wait_for([&] {
    const auto names = manager.names();
    return std::ranges::none_of(names, [](const auto& name) { return name.ends_with("nonsense"); });
  })) << "nobody else would remove it";
  const auto again = connect(0);
  EXPECT_TRUE(write_bar(*again, 1u << 20)) << "it serves the next one";
}

TEST_F(RestartTest, ItSaysWhatARestartWouldCost) {
  keep::FakeManager manager(manager_path_, 7);
  std::unique_ptr<vfio_user::Client> client;
  const std::string log = log_of([&] {
    start();
    ASSERT_TRUE(wait_for([&] { return manager.names().size() == 6; }));
    client = connect(0);
    ASSERT_TRUE(wait_for([&] { return manager.names().size() == 3; })) << "VM-02's";
    stop();
  });
  EXPECT_THAT(log, HasSubstr("adapter VM-01: if the daemon restarts, the VM loses this adapter"));
  EXPECT_THAT(log, HasSubstr("raise FileDescriptorStoreMax="));
}

}  // namespace
}  // namespace pvrdma::daemon
