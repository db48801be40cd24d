// The socket file and the life of sessions on it. session_test.cc tests single messages.
#include "vfio_user/server.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <sys/eventfd.h>
#include <sys/stat.h>
#include <sys/un.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/log.h"
#include "base/log_writer.h"
#include "support/log_of.h"
#include "support/open_fds.h"
#include "vfio_user/server_fixture.h"

namespace pvrdma::vfio_user {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Duration kLogPatience = std::chrono::seconds(10);

TEST_F(ServerTest, TheSocketIsForItsOwnerAndGoesWithTheServer) {
  auto server = listen();
  struct stat file {};
  ASSERT_EQ(::lstat(path_.c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(server->seat().fd(), -1);
  EXPECT_FALSE(server->seat().wants_write());
  server.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ServerTest, ASocketLeftBehindByADeadServerIsReplaced) {
  {
    const auto address = unix_address("vfio-user socket", path_);
    const Fd dead(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    ASSERT_EQ(::bind(dead.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
  }
  ASSERT_TRUE(std::filesystem::exists(path_));
  auto server = listen();
  ASSERT_TRUE(server);
  connect_and_agree(*server);
}

TEST_F(ServerTest, ALivingServersSocketIsLeftAlone) {
  auto server = listen();
  const Error error = listen_failure(path_);
  EXPECT_EQ(error.code, EADDRINUSE);
  EXPECT_THAT(error.message, AllOf(HasSubstr(path_), HasSubstr("another running server")));
  // The probe was a connection that closed at once.
  server->on_listen_ready();
  run(*server);
  EXPECT_EQ(server->seat().fd(), -1);
  connect_and_agree(*server);
}

TEST_F(ServerTest, AnotherServersFileIsNotRemoved) {
  auto server = listen();
  std::filesystem::remove(path_);
  auto next = listen();
  server.reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
  next.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(ServerTest, OperatorMistakes) {
  std::ofstream(path_) << "notes";
  Error error = listen_failure(path_);
  EXPECT_EQ(error.code, EADDRINUSE);
  EXPECT_THAT(error.message, AllOf(HasSubstr(path_), HasSubstr("not a socket")));
  EXPECT_EQ(std::filesystem::file_size(path_), 5u);

  error = listen_failure((directory_ / "none" / "a.sock").string());
  EXPECT_EQ(error.code, ENOENT);
  EXPECT_THAT(error.message,
              HasSubstr("there is no directory " + (directory_ / "none").string() + ": create it"));

  error = listen_failure(path_ + "/a.sock");
  EXPECT_EQ(error.code, ENOTDIR);

  const std::string long_path = "/tmp/" + std::string(200, 'x');
  error = listen_failure(long_path);
  EXPECT_EQ(error.code, ENAMETOOLONG);
  EXPECT_THAT(error.message, AllOf(HasSubstr(long_path), HasSubstr("205 bytes"), HasSubstr("at most 107")));

  EXPECT_EQ(listen_failure("").code, EINVAL);
}

TEST_F(ServerTest, TheLongestPathWorks) {
  path_ = (directory_ / "s").string();
  path_.append(kUnixPathBytesMax - path_.size(), 's');
  auto server = listen();
  ASSERT_TRUE(server);
  connect_and_agree(*server);
}

TEST_F(ServerTest, ASecondClientIsRefusedAndTheFirstStays) {
  auto server = listen();
  RawPeer first = connect_and_agree(*server);
  RawPeer second = connect();
  server->on_listen_ready();
  EXPECT_TRUE(second.at_end());
  first.send(message(1, Command::kReset));
  run(*server);
  EXPECT_TRUE(first.receive());
  EXPECT_THAT(device_.calls, ElementsAre("connected", "reset"));
}

TEST_F(ServerTest, AHeldClientIsNotReadWhoeverKnocks) {
  auto server = listen();
  RawPeer peer = connect_and_agree(*server);
  server->seat().hold(true);
  peer.send(message(1, Command::kReset));
  EXPECT_FALSE(server->seat().on_ready(true, true));
  const RawPeer second = connect();
  server->on_listen_ready();  // handles the first client's end
  EXPECT_THAT(device_.calls, ElementsAre("connected"));
  server->seat().hold(false);
  run(*server);
  EXPECT_TRUE(peer.receive());
}

TEST_F(ServerTest, AHeldClientThatGoesIsSeenToGo) {
  auto server = listen();
  {
    const RawPeer peer = connect_and_agree(*server);
    server->seat().hold(true);
  }
  EXPECT_TRUE(server->seat().on_ready(true, true));
  EXPECT_EQ(server->seat().fd(), -1);
}

TEST_F(ServerTest, SendsClientsAwayWhileToldTo) {
  auto server = listen();
  server->refuse_clients("memory is not reserved");
  RawPeer refused = connect();
  server->on_listen_ready();
  EXPECT_TRUE(refused.at_end());
  EXPECT_EQ(server->seat().fd(), -1);
  server->refuse_clients("");
  RawPeer welcome = connect_and_agree(*server);
  server->refuse_clients("memory is not reserved");
  welcome.send(message(1, Command::kReset));
  run(*server);
  EXPECT_TRUE(welcome.receive()) << "who is here already stays";
}

TEST_F(ServerTest, ReconnectsAfterEveryKindOfEnd) {
  auto server = listen();
  for (const bool broken : {false, true, false, true}) {
    RawPeer peer = connect_and_agree(*server);
    if (broken) peer.send(message(1, Command::kReset, Bytes(3)));
    if (!broken) peer.close();
    run(*server);
    EXPECT_EQ(server->seat().fd(), -1);
    EXPECT_TRUE(!broken || peer.at_end());
    EXPECT_THAT(device_.take_calls(),
                ElementsAre("connected", broken ? HasSubstr("disconnected: DEVICE_RESET message that")
                                                : HasSubstr("disconnected: the peer closed the connection")));
  }
}

TEST_F(ServerTest, ANewClientMayComeBeforeTheEndOfTheLastOneWasSeen) {
  auto server = listen();
  connect_and_agree(*server).close();
  connect_and_agree(*server);
  EXPECT_THAT(device_.calls, ElementsAre("connected", HasSubstr("disconnected"), "connected"));
}

TEST_F(ServerTest, AClientThatNeverAgreedIsNoNewsToTheDevice) {
  auto server = listen();
  for (const Bytes& bytes : {Bytes{}, Bytes(7), message(1, Command::kReset), Bytes(40, std::byte{0xff})}) {
    RawPeer peer = connect();
    server->on_listen_ready();
    ASSERT_NE(server->seat().fd(), -1);
    if (!bytes.empty()) peer.send(bytes);
    peer.close();
    run(*server);
    EXPECT_EQ(server->seat().fd(), -1);
  }
  EXPECT_THAT(device_.calls, IsEmpty());
}

TEST_F(ServerTest, OneLogLinePerBrokenSession) {
  auto server = listen();
  const std::string text = test::log_of([&] {
    RawPeer peer = connect();
    server->on_listen_ready();
    peer.send(message(1, Command::kReset));
    run(*server);
    run(*server);
  });
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  EXPECT_THAT(text, AllOf(HasSubstr(path_), HasSubstr("DEVICE_RESET message that comes before VERSION")));
}

TEST_F(ServerTest, PostedWritesThatNeedRepliesAreReportedOncePerSession) {
  auto server = listen();
  for (const std::uint32_t awaited : {1u, 0u}) {
    device_.awaited_region = awaited;
    RawPeer peer = connect_and_agree(*server);
    const auto write_to = [&](std::uint32_t region) {
      peer.send(message(1, Command::kRegionWrite,
                        bytes_of(wire::RegionAccess{0, region, 4}, std::uint32_t{0}), 0x10));
      run(*server);
    };
    const std::string text = test::log_of([&] {
      write_to(2);
      write_to(1 - awaited);
      for (int i = 0; i < 3; ++i) write_to(awaited);
    });
    EXPECT_EQ(std::ranges::count(text, '\n'), 1);
    EXPECT_THAT(text, AllOf(HasSubstr(path_), HasSubstr("region " + std::to_string(awaited)),
                            HasSubstr("x-no-posted-writes")));
    peer.close();
    run(*server);
  }
}

TEST_F(ServerTest, TheDeviceLearnsThatTheServerStops) {
  auto server = listen();
  RawPeer peer = connect_and_agree(*server);
  server.reset();
  EXPECT_TRUE(peer.at_end());
  EXPECT_THAT(device_.calls, ElementsAre("connected", "disconnected: the server stops"));
}

TEST_F(ServerTest, RequestsEndWithTheirSession) {
  const auto note_end = [](int& end) {
    return [&end](int error, std::span<const std::byte>) { end = error; };
  };
  int at_disconnect = -1, at_stop = -1, late = -1;
  {
    auto server = listen();
    EXPECT_EQ(server->seat().dma_read(0, 1, note_end(at_stop)).error().code, ENOTCONN);
    RawPeer peer = connect_and_agree(*server);
    // A callback that is told of the session's end cannot make further requests.
    int asked_too_late = 0;
    ASSERT_TRUE(server->seat().dma_read(0, 1, [&](int error, std::span<const std::byte>) {
      at_disconnect = error;
      asked_too_late = server->seat().dma_write_posted(0, std::array<std::byte, 1>{}).error().code;
    }));
    peer.close();
    run(*server);
    EXPECT_EQ(server->seat().fd(), -1);
    EXPECT_EQ(at_disconnect, ECONNRESET);
    EXPECT_EQ(asked_too_late, ENOTCONN);
    EXPECT_EQ(server->seat().next_deadline(), Instant::never());

    peer = connect_and_agree(*server);
    ASSERT_TRUE(server->seat().dma_read(0, 1, note_end(late)));
    server->seat().on_time(server->seat().next_deadline());
    EXPECT_EQ(late, ETIMEDOUT);
    ASSERT_TRUE(server->seat().dma_read(0, 1, note_end(at_stop)));
  }
  EXPECT_EQ(at_stop, ECONNRESET);
  EXPECT_EQ(late, ETIMEDOUT) << "once";
}

TEST_F(ServerTest, SpeculativeCallsDoNothing) {
  auto server = listen();
  server->on_listen_ready();
  EXPECT_FALSE(server->seat().on_ready(true, true));
  RawPeer peer = connect_and_agree(*server);
  EXPECT_FALSE(server->seat().on_ready(true, true));
  EXPECT_NE(server->seat().fd(), -1);
}

TEST_F(ServerTest, AClientThatComesAndGoesInALoopWritesFewLines) {
  auto server = listen();
  const std::string text = test::log_of([&] {
    for (int i = 0; i < 200; ++i) {
      RawPeer peer = connect_and_agree(*server);
      peer.send(message(1, Command::kReset, Bytes(3)));
      run(*server);
    }
  });
  EXPECT_THAT(text, HasSubstr("ended the client's session"));
  EXPECT_LE(std::ranges::count(text, '\n'), 100) << "400 without a limit";
}

TEST_F(ServerTest, NoDescriptorIsLeftOpenWhateverHappens) {
  log::info("the log's thread opens the time zone's file for its first line");
  EXPECT_TRUE(log::flush(kLogPatience));
  const std::size_t before = test::count_open_fds();
  {
    const Fd eventfd(::eventfd(0, EFD_CLOEXEC));
    auto server = listen();
    const wire::DmaMap map{.flags = 3, .size = 0x1000};
    const struct {
      Bytes bytes;
      std::size_t fds;
    } table[] = {
        {message(1, Command::kDmaMap, bytes_of(map)), 1},             // taken
        {message(1, Command::kDmaMap, bytes_of(wire::DmaMap{})), 1},  // refused
        {message(1, Command::kDmaMap, bytes_of(map)), 2},             // too many for this one
        {message(1, Command::kDmaMap, Bytes(3)), 1},                  // malformed
        {message(1, Command::kSetIrqs, bytes_of(wire::SetIrqs{.flags = 0x24, .index = 2, .count = 3})), 3},
        {message(1, Command::kSetIrqs, bytes_of(wire::SetIrqs{.flags = 0x24, .index = 2, .count = 9})), 8},
        {message(1, Command::kSetIrqs, bytes_of(wire::SetIrqs{.flags = 0x24, .index = 2, .count = 9})), 9},
        {message(1, Command{99}), 1},
        {Bytes(5), 4},  // part of a header, then the end
        {bytes_of(wire::Header{.size_bytes = 3}), 4},
        {Bytes(100, std::byte{0xff}), 100},
    };
    for (const auto& row : table) {
      RawPeer peer = connect_and_agree(*server);
      peer.send(row.bytes, std::vector<int>(row.fds, eventfd.get()));
      run(*server);
      peer.close();
      run(*server);
      EXPECT_EQ(server->seat().fd(), -1);
      device_.fds.clear();
      EXPECT_EQ(test::count_open_fds(), before + 2);  // eventfd, listening socket
    }
  }
  EXPECT_EQ(test::count_open_fds(), before);
}

}  // namespace
}  // namespace pvrdma::vfio_user
