// Shared by the tests of Server: a socket in a temporary folder, a device behind it, and clients.
#pragma once

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <sys/socket.h>
#include <sys/un.h>
#include <utility>

#include "gtest/gtest.h"

#include "vfio_user/fake_handler.h"
#include "vfio_user/raw_peer.h"
#include "vfio_user/server.h"

namespace pvrdma::vfio_user {

class ServerTest : public testing::Test {
 protected:
  std::filesystem::path directory_;
  std::string path_;
  FakeHandler device_;

  void SetUp() override {
    std::string name = (std::filesystem::temp_directory_path() / "vfio_user_test_XXXXXX").string();
    ASSERT_NE(::mkdtemp(name.data()), nullptr);
    directory_ = name;
    path_ = (directory_ / "adapter.sock").string();
  }
  void TearDown() override { std::filesystem::remove_all(directory_); }

  std::unique_ptr<Server> listen() {
    auto server = Server::listen(path_, device_);
    EXPECT_TRUE(server) << server.error().message;
    return server ? std::move(*server) : nullptr;
  }
  Error listen_failure(const std::string& path) {
    const auto server = Server::listen(path, device_);
    return server ? Error{} : server.error();
  }

  RawPeer connect() {
    Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const auto address = unix_address("vfio-user socket", path_);
    EXPECT_TRUE(address);
    EXPECT_EQ(::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
    return RawPeer(std::move(socket));
  }

  static void run(Server& server) {
    while (server.seat().on_ready(true, true)) {
    }
  }

  RawPeer connect_and_agree(Server& server) {
    RawPeer peer = connect();
    server.on_listen_ready();
    peer.send(qemu_version());
    run(server);
    EXPECT_TRUE(peer.receive());
    return peer;
  }
};

}  // namespace pvrdma::vfio_user
