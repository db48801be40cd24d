#include "base/unix_client.h"

#include <filesystem>
#include <fstream>
#include <functional>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/unix_listener.h"

namespace pvrdma {
namespace {

constexpr uid_t kDaemon = 64010;
constexpr uid_t kVm = 64011;

// Runs `action` in a process of user and group `id` with no capability except CAP_CHOWN if `may_chown`.
int as_user(uid_t id, bool may_chown, const std::function<int()>& action) {
  const pid_t child = ::fork();
  if (child == 0) {
    constexpr std::uint32_t kChown = 1u << CAP_CHOWN;
    ::prctl(PR_SET_KEEPCAPS, 1, 0, 0, 0);
    if (::setgid(id) != 0 || ::setuid(id) != 0) ::_exit(255);
    __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
    __user_cap_data_struct data[2]{};
    if (may_chown) data[0] = {kChown, kChown, 0};
    if (::syscall(SYS_capset, &header, data) != 0) ::_exit(255);
    ::_exit(action());
  }
  int status = 0;
  EXPECT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status));
  return WEXITSTATUS(status);
}

class UnixClientTest : public testing::Test {
 protected:
  void SetUp() override {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directory(folder_);
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  static std::unique_ptr<UnixListener> listen(const std::string& path) {
    return UnixListener::listen(path, {.what = "test socket", .mode = 0755, .backlog = 4}).value();
  }
  static int code_of(const std::string& path) {
    const auto connected = connect_unix("test socket", path);
    return connected ? 0 : connected.error().code;
  }

  const std::string folder_ = testing::TempDir() + "unix_client_test_" + std::to_string(::getpid());
  const std::string path_ = folder_ + "/qmp";
};

TEST_F(UnixClientTest, ConnectsToASocket) {
  EXPECT_EQ(code_of(path_), ENOENT);
  const auto listener = listen(path_);
  const auto connected = connect_unix("test socket", path_);
  ASSERT_TRUE(connected) << connected.error().message;
  EXPECT_TRUE(Fd(::accept(listener->fd(), nullptr, nullptr)));
  EXPECT_EQ(code_of(std::string(200, 'x')), ENAMETOOLONG);
}

TEST_F(UnixClientTest, FollowsNoSymbolicLink) {
  const auto others = listen(folder_ + "/others");
  std::filesystem::create_symlink(others->path(), path_);
  const auto refused = connect_unix("test socket", path_);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ELOOP);
  EXPECT_EQ(refused.error().message, "test socket " + path_ + ": Too many levels of symbolic links");
  EXPECT_LT(::accept(others->fd(), nullptr, nullptr), 0) << "nobody has connected";
}

TEST_F(UnixClientTest, OpensNothingButASocket) {
  std::ofstream(folder_ + "/file").put('x');
  ASSERT_EQ(::mkfifo((folder_ + "/fifo").c_str(), 0600), 0);  // opening it would wait for a writer
  std::filesystem::create_directory(folder_ + "/folder");
  for (const char* name : {"file", "fifo", "folder"})
    EXPECT_EQ(code_of(folder_ + "/" + name), ENOTSOCK) << name;
}

// The folder has the owner and the mode of a VMM's folder, and the socket those that the umask 022 gives.
TEST_F(UnixClientTest, TakesASocketOverWhereItMayReplaceIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "runs processes of other users: needs root";
  const auto listener = listen(path_);
  ASSERT_EQ(::chown(path_.c_str(), kVm, kVm), 0);
  ASSERT_EQ(::chown(folder_.c_str(), kVm, kDaemon), 0);
  ASSERT_EQ(::chmod(folder_.c_str(), 0770), 0);
  const auto connect = [this] { return code_of(path_); };
  EXPECT_EQ(as_user(kDaemon, false, connect), EACCES);
  EXPECT_EQ(as_user(kDaemon, true, connect), 0);
  EXPECT_EQ(as_user(kDaemon, false, connect), 0) << "it is the daemon's from now on";
  EXPECT_EQ(as_user(kVm + 1, true, connect), EACCES);
}

TEST_F(UnixClientTest, TakesNoSocketOfAFolderThatIsNotItsOwn) {
  if (::geteuid() != 0) GTEST_SKIP() << "runs processes of other users: needs root";
  const auto listener = listen(path_);
  struct stat found {};
  for (const mode_t mode : {0755, 01777}) {
    ASSERT_EQ(::chmod(folder_.c_str(), mode), 0);
    EXPECT_EQ(as_user(kDaemon, true, [this] { return code_of(path_); }), EACCES);
    ASSERT_EQ(::stat(path_.c_str(), &found), 0);
    EXPECT_EQ(found.st_uid, 0u);
  }
}

}  // namespace
}  // namespace pvrdma
