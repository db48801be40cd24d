#include "pvrdmad/daemon.h"

#include <array>
#include <filesystem>
#include <gtest/gtest.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "base/unix_listener.h"
#include "cluster/cluster_fixture.h"
#include "control/plane/plane.h"
#include "control/store/store.h"
#include "vfio_user/client.h"

// The object graph with real sockets: starting is all or nothing, and stopping leaves nothing behind.
// tests/device and tests/vm test it with guests.
namespace pvrdma::daemon {
namespace {

namespace fs = std::filesystem;

class DaemonTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    config_.daemon.api_socket = folder_ + "/api.sock";
    for (std::uint8_t i = 1; i <= 3; ++i) {
      const std::string name = "VM-0" + std::to_string(i);
      config_.adapters.push_back(
          {name, folder_ + "/" + name, {0x52, 0x54, 0, 0, 0, i}, HardwareVersion::k14, RoceVersion::kV2});
    }
  }
  void TearDown() override { fs::remove_all(folder_); }

  std::vector<std::string> files() const {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(folder_))
      names.push_back(entry.path().filename().string());
    return names;
  }

  const std::string folder_ = testing::TempDir() + "daemon_test_" +
                              testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                              std::to_string(::getpid());
  control::Config config_;
};

TEST_F(DaemonTest, ServesEveryAdapterAndLeavesNothingBehind) {
  auto daemon = Daemon::create(config_, "1.2.3").value();
  ASSERT_TRUE(daemon->start());
  EXPECT_EQ(files().size(), 7U) << "three adapters, each with a socket and a folder, and the API";
  for (const auto& adapter : config_.adapters) {
    const auto client = vfio_user::Client::connect(adapter.socket);
    ASSERT_TRUE(client) << client.error().message;
    const auto info = (*client)->device_info();
    ASSERT_TRUE(info) << info.error().message;
    EXPECT_EQ(info->region_count, 9U);
  }
  daemon.reset();
  EXPECT_TRUE(files().empty());
}

TEST_F(DaemonTest, StopsWithClientsConnected) {
  auto daemon = Daemon::create(config_, "1.2.3").value();
  ASSERT_TRUE(daemon->start());
  const auto client = vfio_user::Client::connect(config_.adapters[0].socket).value();
  std::jthread busy([&client](const std::stop_token& stop) {
    std::array<std::byte, 4> word{};
    while (!stop.stop_requested() && client->region_read(1, 0, word)) {
    }
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  daemon.reset();
  EXPECT_TRUE(files().empty());
}

TEST_F(DaemonTest, ServesAClientThatComesBack) {
  auto daemon = Daemon::create(config_, "1.2.3").value();
  ASSERT_TRUE(daemon->start());
  for (int i = 0; i < 20; ++i) {
    const auto client = vfio_user::Client::connect(config_.adapters[0].socket);
    ASSERT_TRUE(client) << client.error().message;
    ASSERT_TRUE((*client)->device_info());
  }
}

TEST_F(DaemonTest, StartsNothingWhenOneSocketIsInUse) {
  control::Config other = config_;
  other.adapters.resize(1);
  other.adapters[0].socket = config_.adapters[2].socket;
  other.daemon.api_socket = folder_ + "/other-api";
  const auto running = Daemon::create(other, "1.2.3").value();
  const auto daemon = Daemon::create(config_, "1.2.3");
  ASSERT_FALSE(daemon);
  EXPECT_EQ(daemon.error().message,
            "adapter VM-03: vfio-user socket " + config_.adapters[2].socket +
                ": another running server uses it: stop that server or choose another path");
  EXPECT_EQ(files().size(), 3U)
      << "only the other daemon's: its API's socket, the adapter's, the VMM's folder";
}

TEST_F(DaemonTest, StartsNothingWithoutItsApi) {
  config_.daemon.api_socket = folder_ + "/no-such-folder/api.sock";
  EXPECT_FALSE(Daemon::create(config_, "1.2.3"));
  EXPECT_TRUE(files().empty());
}

TEST_F(DaemonTest, IsNoHostOfTheClusterWhenItsApiSocketIsTaken) {
  control::Config other = config_;
  other.adapters.clear();
  const auto running = Daemon::create(other, "1.2.3").value();
  config_.cluster.emplace();
  config_.cluster->host_name = "esx-01";
  config_.cluster->socket_folder = folder_;
  config_.cluster->store = control::SqliteConfig{folder_ + "/store.db"};
  const auto daemon = Daemon::create(config_, "1.2.3");
  ASSERT_FALSE(daemon);
  EXPECT_NE(daemon.error().message.find("api.sock"), std::string::npos) << daemon.error().message;

  auto store = control::make_sqlite_store({folder_ + "/store.db"});
  const auto plane = control::Plane::start("esx-02", "looks", std::move(store), nullptr).value();
  EXPECT_TRUE(plane->inventory()->hosts.empty());
  EXPECT_EQ(plane->inventory()->revision, 0U);
}

TEST_F(DaemonTest, LeavesNothingBehindWhenItIsNeverStarted) {
  { const auto daemon = Daemon::create(config_, "1.2.3").value(); }
  EXPECT_TRUE(files().empty());
}

// A VM that the store knows from earlier has its socket as soon as the daemon has joined.
TEST_F(DaemonTest, AMemberOfAClusterServesItsVms) {
  config_.cluster.emplace();
  config_.cluster->host_name = "esx-01";
  config_.cluster->socket_folder = folder_;
  config_.cluster->store = control::SqliteConfig{folder_ + "/store.db"};
  {
    auto store = control::make_sqlite_store({folder_ + "/store.db"});
    const auto plane = control::Plane::start("esx-01", "before", std::move(store), nullptr).value();
    cluster::must(plane->edit([](control::Inventory& inventory) -> Result<void> {
      cluster::add_switch(inventory);
      cluster::must(control::edits::add_host(inventory, "esx-01"));
      cluster::must(control::edits::add_dvs_host(inventory, "dvs1", "esx-01"));
      cluster::add_vm(inventory, "VM-09", "esx-01");
      return {};
    }));
  }
  const auto leave_socket = [this](const std::string& vm) {  // as a daemon that is killed does
    UnixListener::listen(folder_ + "/" + vm + ".sock", {.what = "earlier", .mode = 0600, .backlog = 1})
        .value()
        ->leave();
  };
  leave_socket("VM-08");  // which was on its way here, and is on another host now
  leave_socket("VM-09");
  auto daemon = Daemon::create(config_, "1.2.3").value();
  EXPECT_FALSE(fs::exists(folder_ + "/VM-08.sock"));
  ASSERT_TRUE(daemon->start());
  const std::string socket = folder_ + "/VM-09.sock";
  while (!fs::exists(socket)) std::this_thread::sleep_for(std::chrono::milliseconds(1));
  auto client = vfio_user::Client::connect(socket);
  for (int i = 0; !client && i < 5000; ++i) {  // it is bound before it listens
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
    client = vfio_user::Client::connect(socket);
  }
  ASSERT_TRUE(client) << client.error().message;
  EXPECT_TRUE((*client)->device_info());
  daemon.reset();
  EXPECT_FALSE(fs::exists(socket));
}

TEST_F(DaemonTest, AMemberOfAClusterWithoutItsCertificateIsNotStarted) {
  config_.cluster.emplace();
  config_.cluster->host_name = "esx-01";
  config_.cluster->store = control::SqliteConfig{folder_ + "/store.db"};
  config_.cluster->tcp_tls = {folder_ + "/ca.pem", folder_ + "/host.pem", folder_ + "/host.key"};
  const auto daemon = Daemon::create(config_, "1.2.3");
  ASSERT_FALSE(daemon);
  EXPECT_NE(daemon.error().message.find(folder_), std::string::npos) << daemon.error().message;
  EXPECT_TRUE(files().empty());
}

}  // namespace
}  // namespace pvrdma::daemon
