#include "control/socket_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma::control {
namespace {

class SocketFileTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  Fd bind_socket() {
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    std::memcpy(address.sun_path, path_.data(), path_.size());
    Fd fd(::socket(AF_UNIX, SOCK_STREAM, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
    return fd;
  }

  const std::string path_ = testing::TempDir() +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                            std::to_string(::getpid()) + ".sock";
};

TEST_F(SocketFileTest, HasRoomWhereNothingIs) {
  EXPECT_TRUE(SocketFile::make_room(path_));
}

TEST_F(SocketFileTest, RemovesWhatADeadProcessLeft) {
  bind_socket().reset();
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_TRUE(SocketFile::make_room(path_));
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, RefusesALivingSocket) {
  const Fd living = bind_socket();
  ASSERT_EQ(::listen(living.get(), 1), 0);
  const auto room = SocketFile::make_room(path_);
  ASSERT_FALSE(room);
  EXPECT_EQ(
      room.error().message,
      "API socket " + path_ + ": another running daemon uses it: stop that daemon or choose another path");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, RefusesAFileThatIsNoSocket) {
  std::ofstream(path_) << "precious";
  const auto room = SocketFile::make_room(path_);
  ASSERT_FALSE(room);
  EXPECT_EQ(
      room.error().message,
      "API socket " + path_ + ": a file that is no socket is in the way: remove it or choose another path");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, RemovesItsOwnFileAtTheEnd) {
  const Fd bound = bind_socket();
  { const SocketFile file(path_); }
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(SocketFileTest, LeavesAFileThatTookItsPlace) {
  const Fd bound = bind_socket();
  {
    const SocketFile file(path_);
    std::filesystem::remove(path_);
    std::ofstream(path_) << "another's";
  }
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace pvrdma::control
