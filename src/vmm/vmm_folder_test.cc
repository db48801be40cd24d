#include "vmm/vmm_folder.h"

#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

namespace pvrdma::vmm {
namespace {

constexpr uid_t kVm = 64021;
constexpr uid_t kAnotherVm = 64022;
constexpr gid_t kGroup = 64023;

class VmmFolderTest : public testing::Test {
 protected:
  void SetUp() override { std::filesystem::remove_all(path_); }
  void TearDown() override { std::filesystem::remove_all(path_); }

  struct stat found() const {
    struct stat found {};
    EXPECT_EQ(::lstat(path_.c_str(), &found), 0);
    return found;
  }
  void expect(uid_t user, gid_t group, mode_t mode) const {
    EXPECT_EQ(found().st_uid, user);
    EXPECT_EQ(found().st_gid, group);
    EXPECT_EQ(found().st_mode & 07777, mode);
  }
  void put(const std::string& name) const { std::ofstream(path_ + "/" + name).put('x'); }

  const std::string path_ = testing::TempDir() + "vmm_folder_test_" + std::to_string(::getpid());
};

TEST_F(VmmFolderTest, IsForTheDaemonsUserWithoutAnOwner) {
  auto made = VmmFolder::make(path_, {});
  ASSERT_TRUE(made) << made.error().message;
  expect(::geteuid(), ::getegid(), 0700);
  made->reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(VmmFolderTest, IsForTheOwnerAndTheDaemon) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives folders away: needs root";
  const auto of_user = VmmFolder::make(path_, {.user = kVm, .group = kGroup}).value();
  expect(kVm, ::getegid(), 0770);
  const auto of_group = VmmFolder::make(path_, {.user = {}, .group = kGroup}).value();
  expect(::geteuid(), kGroup, 0770);
}

TEST_F(VmmFolderTest, TheSocketsGoWithIt) {
  auto made = VmmFolder::make(path_, {}).value();
  for (const char* name : {"qmp", "next.qmp", "main", "cpr"}) put(name);
  made.reset();
  EXPECT_FALSE(std::filesystem::exists(path_));
}

TEST_F(VmmFolderTest, TheSocketsOfAVmmThatGoesOnStay) {
  auto made = VmmFolder::make(path_, {}).value();
  put("qmp");
  made->leave_sockets();
  made.reset();
  EXPECT_TRUE(std::filesystem::exists(path_ + "/qmp"));
  std::filesystem::remove(path_ + "/qmp");
  made = VmmFolder::make(path_, {}).value();
  made->leave_sockets();
  made.reset();
  EXPECT_FALSE(std::filesystem::exists(path_)) << "it has none";
}

// A VMM that runs has its sockets there, and it may have changed the mode.
TEST_F(VmmFolderTest, TheNextProcessUsesIt) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives folders away: needs root";
  auto first = VmmFolder::make(path_, {.user = kVm, .group = {}}).value();
  first->leave();
  first.reset();
  put("qmp");
  ASSERT_EQ(::chmod(path_.c_str(), 0), 0);
  const ino_t inode = found().st_ino;
  const auto second = VmmFolder::make(path_, {.user = kVm, .group = {}}).value();
  expect(kVm, ::getegid(), 0770);
  EXPECT_EQ(found().st_ino, inode);
  EXPECT_TRUE(std::filesystem::exists(path_ + "/qmp"));
}

TEST_F(VmmFolderTest, AnotherOwnerFindsItEmpty) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives folders away: needs root";
  auto first = VmmFolder::make(path_, {.user = kVm, .group = {}}).value();
  put("qmp");
  const auto second = VmmFolder::make(path_, {.user = kAnotherVm, .group = {}}).value();
  expect(kAnotherVm, ::getegid(), 0770);
  EXPECT_TRUE(std::filesystem::is_empty(path_));
  first->leave();
}

// Files of other names are never looked for, however many there are.
TEST_F(VmmFolderTest, WhatAVmmHasLeftStaysAndIsInTheWayOfAnotherOwnerAlone) {
  if (::geteuid() != 0) GTEST_SKIP() << "gives folders away: needs root";
  VmmFolder::make(path_, {.user = kVm, .group = {}}).value()->leave();
  put("mine");
  std::filesystem::create_directory(path_ + "/qmp");
  EXPECT_TRUE(VmmFolder::make(path_, {.user = kVm, .group = {}}));
  EXPECT_TRUE(std::filesystem::exists(path_ + "/mine"));
  const auto refused = VmmFolder::make(path_, {.user = kAnotherVm, .group = {}});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().message, "the folder " + path_ +
                                         " of the VM's QEMU cannot be made: something that is not this VM's "
                                         "is in the way (Directory not empty): remove it");
  EXPECT_TRUE(VmmFolder::make(path_, {.user = kVm, .group = {}})) << "it is still the VM's";
}

TEST_F(VmmFolderTest, FollowsNoSymbolicLink) {
  const std::string target = path_ + ".target";
  std::filesystem::create_directory(target);
  ASSERT_EQ(::chmod(target.c_str(), 0711), 0);
  std::filesystem::create_symlink(target, path_);
  const auto refused = VmmFolder::make(path_, {});
  struct stat untouched {};
  EXPECT_EQ(::stat(target.c_str(), &untouched), 0);
  std::filesystem::remove_all(target);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EEXIST);
  EXPECT_EQ(untouched.st_mode & 07777, 0711u);
}

}  // namespace
}  // namespace pvrdma::vmm
