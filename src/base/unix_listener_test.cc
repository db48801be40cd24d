#include "base/unix_listener.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <grp.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace pvrdma {
namespace {

class UnixListenerTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove(path_); }
  void TearDown() override { std::filesystem::remove(path_); }

  Fd bind_socket() const {
    const auto address = unix_address("test socket", path_);
    Fd fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    EXPECT_EQ(::bind(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)), 0);
    return fd;
  }
  // 0: a server listens.
  int connect(const Fd& fd) const {
    const auto address = unix_address("test socket", path_);
    return ::connect(fd.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0 ? 0
                                                                                                    : errno;
  }
  static Fd client() { return Fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)); }

  Result<std::unique_ptr<UnixListener>> listen(const std::string& path) const {
    return UnixListener::listen(path, {.what = "test socket", .mode = 0600, .backlog = 1});
  }
  Error failure() const {
    const auto listener = listen(path_);
    EXPECT_FALSE(listener);
    return listener ? Error{} : listener.error();
  }

  const std::string path_ = testing::TempDir() +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                            std::to_string(::getpid()) + ".sock";
};

TEST_F(UnixListenerTest, ListensWhereNothingIs) {
  const auto listener = listen(path_);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ((*listener)->path(), path_);
  struct stat file {};
  ASSERT_EQ(::lstat(path_.c_str(), &file), 0);
  EXPECT_TRUE(S_ISSOCK(file.st_mode));
  EXPECT_EQ(file.st_mode & 0777, 0600u);
  EXPECT_EQ(connect(client()), 0);
}

// The test plays two processes: `first` is the earlier one's, and `kept` the descriptor that it leaves to the
// next one.
TEST_F(UnixListenerTest, GoesOnWithASocketThatListensThere) {
  auto first = listen(path_).value();
  Fd kept(::dup(first->fd()));
  first->leave();
  first.reset();
  const Fd waits = client();
  EXPECT_EQ(connect(waits), 0) << "while nobody serves";
  const auto second =
      UnixListener::listen(path_, {.what = "test socket", .mode = 0600, .backlog = 1}, std::move(kept));
  ASSERT_TRUE(second) << second.error().message;
  EXPECT_TRUE(Fd(::accept((*second)->fd(), nullptr, nullptr)));
}

TEST_F(UnixListenerTest, ASocketThatListensElsewhereOrLostItsFileDoesNotCount) {
  auto first = listen(path_).value();
  const std::string other = path_ + ".2";
  std::filesystem::remove(other);
  const auto second = UnixListener::listen(other, {.what = "test socket", .mode = 0600, .backlog = 1},
                                           Fd(::dup(first->fd())));
  ASSERT_TRUE(second);
  EXPECT_EQ((*second)->path(), other);
  EXPECT_TRUE(std::filesystem::is_socket(other));
  Fd kept(::dup(first->fd()));
  std::filesystem::remove(path_);
  const auto third =
      UnixListener::listen(path_, {.what = "test socket", .mode = 0600, .backlog = 1}, std::move(kept));
  ASSERT_TRUE(third);
  EXPECT_EQ(connect(client()), 0);
}

TEST_F(UnixListenerTest, ReplacesWhatADeadProcessLeft) {
  bind_socket().reset();
  ASSERT_TRUE(std::filesystem::exists(path_));
  EXPECT_EQ(connect(client()), ECONNREFUSED);
  const auto listener = listen(path_);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(connect(client()), 0);
}

// Connects as a process that has only this user and group. Returns 0 or connect's errno.
int connect_as(uid_t user, gid_t group, const std::string& path) {
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(group) != 0 || ::setuid(user) != 0) ::_exit(255);
    const auto address = unix_address("test socket", path);
    const int fd = ::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    const bool connected = ::connect(fd, reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0;
    ::_exit(connected ? 0 : errno);
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

constexpr uid_t kOneVm = 64001;
constexpr uid_t kAnotherVm = 64002;
constexpr gid_t kGroup = 64003;

TEST_F(UnixListenerTest, ASocketOfAUserIsThatUsersAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives files away: needs root";
  UnixListener::Options options{.what = "test socket", .mode = 0600, .backlog = 4};
  options.owner.user = kOneVm;
  for (int start = 0; start < 2; ++start) {
    SCOPED_TRACE(start == 0 ? "anew" : "in the place of a dead server's");
    auto listener = UnixListener::listen(path_, options);
    ASSERT_TRUE(listener) << listener.error().message;
    EXPECT_EQ(connect_as(kOneVm, kOneVm, path_), 0);
    EXPECT_EQ(connect_as(kAnotherVm, kAnotherVm, path_), EACCES);
    listener->reset();
    bind_socket().reset();
    ASSERT_EQ(::chown(path_.c_str(), kOneVm, kOneVm), 0);
  }
}

TEST_F(UnixListenerTest, ASocketOfAGroupIsThatGroupsWhateverTheUmask) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives files away: needs root";
  UnixListener::Options options{.what = "test socket", .mode = 0660, .backlog = 4};
  options.owner.group = kGroup;
  const mode_t before = ::umask(0077);
  const auto listener = UnixListener::listen(path_, options);
  ::umask(before);
  ASSERT_TRUE(listener) << listener.error().message;
  EXPECT_EQ(connect_as(kOneVm, kGroup, path_), 0);
  EXPECT_EQ(connect_as(kOneVm, kOneVm, path_), EACCES);
}

TEST_F(UnixListenerTest, ASocketThatGoesOnIsTheirsWhoAreToHaveItNow) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives files away: needs root";
  UnixListener::Options options{.what = "test socket", .mode = 0600, .backlog = 4};
  options.owner.user = kOneVm;
  auto listener = UnixListener::listen(path_, options).value();
  const auto go_on = [&] {
    Fd kept(::dup(listener->fd()));
    listener->leave();
    listener = UnixListener::listen(path_, options, std::move(kept)).value();
  };
  options.owner.user = kAnotherVm;
  go_on();
  EXPECT_EQ(connect_as(kOneVm, kOneVm, path_), EACCES);
  EXPECT_EQ(connect_as(kAnotherVm, kAnotherVm, path_), 0);
  options.mode = 0660;
  options.owner = {.user = {}, .group = kGroup};
  go_on();
  EXPECT_EQ(connect_as(kAnotherVm, kAnotherVm, path_), EACCES);
  EXPECT_EQ(connect_as(kOneVm, kGroup, path_), 0);
  options.mode = 0600;
  options.owner = {};
  go_on();
  EXPECT_EQ(connect_as(kOneVm, kGroup, path_), EACCES);
  EXPECT_EQ(connect_as(kAnotherVm, kAnotherVm, path_), EACCES);
}

TEST_F(UnixListenerTest, SaysWhatItTakesToGiveASocketAway) {
  if (::geteuid() != 0) GTEST_SKIP() << "becomes another user: needs root";
  const std::string folder = path_ + ".folder";
  std::filesystem::create_directory(folder);
  std::filesystem::permissions(folder, std::filesystem::perms::all);
  const pid_t child = ::fork();
  if (child == 0) {
    if (::setgroups(0, nullptr) != 0 || ::setgid(kOneVm) != 0 || ::setuid(kOneVm) != 0) ::_exit(1);
    UnixListener::Options options{.what = "test socket", .mode = 0600, .backlog = 1};
    options.owner.user = kAnotherVm;
    const auto refused = UnixListener::listen(folder + "/a.sock", options);
    const bool fine = !refused && refused.error().code == EPERM &&
                      refused.error().message.find("give the daemon CAP_CHOWN") != std::string::npos &&
                      !std::filesystem::exists(folder + "/a.sock");
    ::_exit(fine ? 0 : 2);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 0);
  std::filesystem::remove_all(folder);
}

TEST_F(UnixListenerTest, RefusesALivingSocket) {
  const Fd living = bind_socket();
  ASSERT_EQ(::listen(living.get(), 1), 0);
  const Error error = failure();
  EXPECT_EQ(error.code, EADDRINUSE);
  EXPECT_EQ(error.message, "test socket " + path_ +
                               ": another running server uses it: stop that server or choose another path");
  EXPECT_EQ(connect(client()), 0);
}

TEST_F(UnixListenerTest, RefusesALivingSocketWhoseBacklogIsFull) {
  const Fd living = bind_socket();
  ASSERT_EQ(::listen(living.get(), 0), 0);
  std::vector<Fd> waiting;
  int code = 0;
  while (code == 0 && waiting.size() < 16) {
    waiting.push_back(client());
    code = connect(waiting.back());
  }
  ASSERT_EQ(code, EAGAIN);
  EXPECT_EQ(failure().code, EADDRINUSE);
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, RefusesAFileThatIsNoSocket) {
  std::ofstream(path_) << "precious";
  const Error error = failure();
  EXPECT_EQ(error.code, EADDRINUSE);
  EXPECT_EQ(error.message,
            "test socket " + path_ +
                ": a file that is not a socket is in the way: remove it or choose another path");
  EXPECT_EQ(std::filesystem::file_size(path_), 8u);
}

TEST_F(UnixListenerTest, NamesADirectoryThatIsMissing) {
  const auto nowhere = listen("/nowhere/a.sock");
  ASSERT_FALSE(nowhere);
  EXPECT_EQ(nowhere.error().code, ENOENT);
  EXPECT_EQ(nowhere.error().message,
            "test socket /nowhere/a.sock: there is no directory /nowhere: create it or choose another path");
}

TEST_F(UnixListenerTest, RemovesItsOwnFileAtTheEnd) {
  listen(path_)->reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, LeavesAFileThatTookItsPlace) {
  auto listener = listen(path_);
  ASSERT_TRUE(listener);
  std::filesystem::remove(path_);
  std::ofstream(path_) << "another's";
  listener->reset();
  EXPECT_TRUE(std::filesystem::exists(path_));
}

TEST_F(UnixListenerTest, RemovesTheDeadSocketsOfAFolderOnly) {
  namespace fs = std::filesystem;
  const std::string folder = path_ + ".d";
  fs::create_directory(folder);
  const auto alive = listen(folder + "/alive.sock").value();
  for (const char* name : {"dead.sock", "used.sock", "dead.other"}) {
    auto listener = listen(folder + "/" + name).value();
    listener->leave();
  }
  std::ofstream(folder + "/file.sock") << "not a socket";
  fs::create_symlink("dead.other", folder + "/link.sock");
  const auto removed = remove_dead_sockets(
      folder, ".sock", [&](const std::string& path) { return path == folder + "/used.sock"; });
  EXPECT_EQ(removed, std::vector{folder + "/dead.sock"});
  std::vector<std::string> left;
  for (const auto& entry : fs::directory_iterator(folder)) left.push_back(entry.path().filename());
  std::ranges::sort(left);
  EXPECT_EQ(left,
            (std::vector<std::string>{"alive.sock", "dead.other", "file.sock", "link.sock", "used.sock"}));
  remove_dead_sockets(folder + "/none", ".sock", [](const std::string&) { return false; });
  fs::remove_all(folder);
}

TEST_F(UnixListenerTest, RemovesTheFileOfAListenerThatIsGivenUp) {
  auto first = listen(path_).value();
  const Fd kept(::dup(first->fd()));
  first->leave();
  first.reset();
  EXPECT_EQ(remove_file_of(kept), path_);
  EXPECT_FALSE(std::filesystem::exists(path_));
  std::ofstream(path_) << "not a socket";
  EXPECT_EQ(remove_file_of(kept), "");
  EXPECT_TRUE(std::filesystem::exists(path_));
}

}  // namespace
}  // namespace pvrdma
