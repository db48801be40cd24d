// "vm migrate" against a simulated daemon and virsh.
#include "pvrdmactl/follow_motion.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <sys/stat.h>
#include <unistd.h>
#include <utility>
#include <vector>

namespace pvrdma::ctl {
namespace {

namespace fs = std::filesystem;

class FollowMotionTest : public testing::Test {
 protected:
  void SetUp() override {
    fs::create_directory(folder_);
    path_before_ = std::getenv("PATH");
    ::setenv("PATH", (folder_ + ":" + path_before_).c_str(), 1);
  }
  ~FollowMotionTest() override {
    ::setenv("PATH", path_before_.c_str(), 1);
    fs::remove_all(folder_);
  }
  // Makes a virsh that appends each of its command lines to the file `asked`.
  void make_virsh(const std::string& lines) const {
    std::ofstream(folder_ + "/virsh") << "#!/bin/sh\necho \"$*\" >>" << folder_ << "/asked\n"
                                      << lines << "\n";
    ASSERT_EQ(::chmod((folder_ + "/virsh").c_str(), 0755), 0);
  }
  std::string asked() const {
    std::ifstream file(folder_ + "/asked");
    return {std::istreambuf_iterator<char>(file), {}};
  }
  void answers(const std::string& state, const std::string& phase = {}, const std::string& error = {}) {
    const Json motion{{"vm", "VM-01"},  {"from", "esx-01"}, {"to", "esx-02"},
                      {"state", state}, {"phase", phase},   {"error", error}};
    answers_.push_back(motion.dump());
  }
  Result<std::string> follow(Values values) {
    values.emplace("NAME", "VM-01");
    const auto send = [this](const Request& request) -> Result<std::string> {
      sent_.emplace_back(request.method, request.body);
      if (request.method == Method::kDelete) return std::string("{}");
      if (answers_.empty()) return fail("nothing more");
      std::string answer = answers_.front();
      if (answers_.size() > 1) answers_.pop_front();
      return answer;
    };
    return follow_motion(send, migrate_command(), values, [this](const Json&) { ++shown_; });
  }
  std::size_t cancels() const {
    return static_cast<std::size_t>(std::count_if(
        sent_.begin(), sent_.end(), [](const auto& each) { return each.first == Method::kDelete; }));
  }

  const std::string folder_ = testing::TempDir() + "follow_motion_" + std::to_string(::getpid());
  std::string path_before_;
  std::deque<std::string> answers_;  // the last one is repeated
  std::vector<std::pair<Method, std::string>> sent_;
  int shown_ = 0;
};

TEST_F(FollowMotionTest, WithoutLibvirtThereIsNoVirsh) {
  make_virsh("exit 1");
  answers("runs", "waits for QEMU");
  answers("done");
  ASSERT_TRUE(follow({{"to", "esx-02"}}));
  EXPECT_EQ(asked(), "");
  EXPECT_EQ(shown_, 1);
  EXPECT_EQ(Json::parse(sent_.at(0).second), (Json{{"to", "esx-02"}}));
}

TEST_F(FollowMotionTest, VirshMigratesOnceTheOtherHostWaits) {
  make_virsh("[ $1 = dominfo ] && echo 'Id: 1' && echo 'Persistent:     yes'; exit 0");
  answers("runs", "begins");
  answers("runs", "waits for QEMU");
  answers("runs", "memory");
  answers("done");
  ASSERT_TRUE(
      follow({{"to", "esx-02"}, {"libvirt", "qemu+ssh://esx-02/system"}, {"migrateuri", "tcp://10.0.0.2"}}));
  EXPECT_EQ(asked(),
            "dominfo VM-01\n"
            "migrate --live --suspend --persistent --undefinesource VM-01 qemu+ssh://esx-02/system "
            "--migrateuri tcp://10.0.0.2\n");
  EXPECT_EQ(Json::parse(sent_.at(0).second).at("leader"), "libvirt");
  EXPECT_EQ(cancels(), 0U);
}

TEST_F(FollowMotionTest, IsToldInEnglishWhetherADomainIsDefined) {
  ::setenv("LC_ALL", "de_DE.UTF-8", 1);
  make_virsh("[ $1 = dominfo ] && [ $LC_ALL = C ] && echo 'Persistent:     yes'; exit 0");
  answers("runs", "waits for QEMU");
  answers("done");
  ASSERT_TRUE(follow({{"to", "esx-02"}, {"libvirt", "URI"}}));
  ::unsetenv("LC_ALL");
  EXPECT_NE(asked().find("--persistent"), std::string::npos);
}

TEST_F(FollowMotionTest, ADomainThatIsNotDefinedIsNotDefinedThere) {
  make_virsh("[ $1 = dominfo ] && echo 'Persistent:     no'; exit 0");
  answers("runs", "waits for QEMU");
  answers("done");
  ASSERT_TRUE(follow({{"to", "esx-02"}, {"libvirt", "URI"}}));
  EXPECT_EQ(asked(), "dominfo VM-01\nmigrate --live --suspend VM-01 URI\n");
}

TEST_F(FollowMotionTest, NothingBeginsForADomainThatLibvirtDoesNotKnow) {
  make_virsh("exit 1");
  const auto followed = follow({{"to", "esx-02"}, {"libvirt", "URI"}});
  EXPECT_EQ(followed.error().message, "virsh dominfo ended with 1");
  EXPECT_TRUE(sent_.empty());
  fs::remove(folder_ + "/virsh");
  ::setenv("PATH", folder_.c_str(), 1);
  EXPECT_NE(follow({{"to", "esx-02"}, {"libvirt", "URI"}}).error().message.find("cannot run virsh"),
            std::string::npos);
}

TEST_F(FollowMotionTest, VirshThatFailsEndsTheMotion) {
  make_virsh("[ $1 = dominfo ] && exit 0; exit 3");
  answers("runs", "waits for QEMU");
  for (int i = 0; i < 4; ++i) answers("runs", "memory");
  answers("failed", "", "the motion was cancelled");
  const auto followed = follow({{"to", "esx-02"}, {"libvirt", "URI"}});
  EXPECT_EQ(followed.error().message, "virsh migrate ended with 3: the motion was cancelled");
  EXPECT_EQ(cancels(), 1U);
}

TEST_F(FollowMotionTest, AMotionThatFailsEndsVirsh) {
  make_virsh("[ $1 = dominfo ] && exit 0; exec sleep 600");
  answers("runs", "waits for QEMU");
  answers("failed", "", "no");
  EXPECT_EQ(follow({{"to", "esx-02"}, {"libvirt", "URI"}}).error().message, "no");
}

// Shells let what they start in the background ignore SIGINT.
TEST_F(FollowMotionTest, AMotionThatFailsEndsVirshFromABackgroundJob) {
  make_virsh("[ $1 = dominfo ] && exit 0; exec sleep 600");
  answers("runs", "waits for QEMU");
  answers("failed", "", "no");
  const auto before = std::signal(SIGINT, SIG_IGN);
  EXPECT_EQ(follow({{"to", "esx-02"}, {"libvirt", "URI"}}).error().message, "no");
  std::signal(SIGINT, before);
}

TEST_F(FollowMotionTest, WhatOnlyLibvirtCanEndIsSaid) {
  make_virsh("exit 0");
  for (const auto& [phase, sentence] :
       {std::pair("stands", "virsh resume VM-01"), std::pair("lost", "reload its driver")}) {
    answers_.clear();
    answers("runs", phase);
    const auto followed = follow({{"to", "esx-02"}, {"libvirt", "URI"}});
    EXPECT_NE(followed.error().message.find(sentence), std::string::npos) << followed.error().message;
  }
}

TEST_F(FollowMotionTest, CheckAndCancelAskTheDaemonAlone) {
  make_virsh("exit 1");
  answers("failed");
  EXPECT_TRUE(follow({{"to", "esx-02"}, {"libvirt", "URI"}, {"check", "true"}}));
  EXPECT_EQ(Json::parse(sent_.at(0).second).at("leader"), "libvirt");
  EXPECT_TRUE(follow({{"cancel", "true"}}));
  EXPECT_EQ(cancels(), 1U);
  EXPECT_EQ(asked(), "");
}

TEST(Progress, IsALine) {
  EXPECT_EQ(progress_of({{"phase", "waits for QEMU"}, {"to", "esx-02"}}), "waits for QEMU on host esx-02");
  EXPECT_EQ(progress_of({{"phase", "memory"}, {"ram_bytes", 512u << 20}, {"remaining_bytes", 12u << 20}}),
            "memory: 500 of 512 MiB");
  EXPECT_EQ(progress_of({{"phase", "begins"}}), "begins");
  EXPECT_EQ(progress_of({{"ram_bytes", 2u << 20}, {"remaining_bytes", 1u << 20}}), "1 of 2 MiB")
      << "a checkpoint";
}

}  // namespace
}  // namespace pvrdma::ctl
