#include "motion/qemu.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <optional>
#include <unistd.h>

#include "vmm/fake_qemu.h"

namespace pvrdma::motion {
namespace {

using vmm::FakeQemu;
using vmm::Json;

// A QEMU that is to end, and whose monitor's connection is of no use any more.
class QuitTest : public testing::Test {
 protected:
  QuitTest() {
    qemu_.emplace(path_, [](const std::string&, const Json&) { return Json("no JSON"); });
    monitor_ = vmm::Monitor::connect(path_, Instant{}).value();
    EXPECT_EQ(monitor_->execute("query-status").error().code, EPROTO);
    qemu_.reset();
  }

  const std::string path_ = testing::TempDir() + "quit_test_" + std::to_string(::getpid()) + ".qmp";
  std::optional<FakeQemu> qemu_;
  std::unique_ptr<vmm::Monitor> monitor_;
};

TEST_F(QuitTest, AQemuThatLivesAndCannotBeAskedHasNotEnded) {
  qemu_.emplace(
      path_, [](const std::string&, const Json&) { return FakeQemu::returning(); }, R"({"busy": true})");
  EXPECT_EQ(quit(monitor_).error().code, EPROTO);
  EXPECT_NE(end_qemu(monitor_).find("has to be ended by hand"), std::string::npos);
}

TEST_F(QuitTest, AQemuThatAnswersAgainIsTold) {
  qemu_.emplace(path_, [](const std::string&, const Json&) { return FakeQemu::returning(); });
  EXPECT_TRUE(quit(monitor_));
  EXPECT_EQ(qemu_->commands(), std::vector<std::string>{"quit"});
}

TEST_F(QuitTest, AQemuThatRefusesHasNotEnded) {
  qemu_.emplace(path_, [](const std::string&, const Json&) { return FakeQemu::refusing("not now"); });
  EXPECT_EQ(quit(monitor_).error().code, EREMOTEIO);
}

TEST_F(QuitTest, AQemuThatNobodyFindsHasEnded) {
  EXPECT_TRUE(quit(monitor_));
}

TEST_F(QuitTest, AQemuThatHangsUpHasEnded) {
  qemu_.emplace(path_, [](const std::string&, const Json&) { return std::nullopt; });
  EXPECT_TRUE(quit(monitor_));
}

}  // namespace
}  // namespace pvrdma::motion
