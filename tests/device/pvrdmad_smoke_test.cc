// The real program: started as an operator does, pvrdmad serves two adapters, and drivers of this process
// exchange data through it. SIGTERM ends it in order and removes its sockets.
#include <filesystem>
#include <fstream>
#include <signal.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include "gtest/gtest.h"

#include "driver/driver.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

extern char** environ;

namespace pvrdma::test {
namespace {

namespace wr = driver::wr;

class Pvrdmad : public ::testing::Test {
 protected:
  void SetUp() override {
    std::string folder = (std::filesystem::temp_directory_path() / "pvrdmad-smoke-XXXXXX").string();
    ASSERT_NE(::mkdtemp(folder.data()), nullptr);
    folder_ = folder;
    std::ofstream config(folder_ / "pvrdmad.toml");
    config << "[daemon]\napi_socket = \"" << (folder_ / "api.sock").string() << "\"\n";
    for (std::uint32_t i = 0; i < 2; ++i) {
      config << "\n[[adapter]]\nname = \"vm-0" << i << "\"\nsocket = \"" << socket(i)
             << "\"\nmac = \"02:00:00:00:00:0" << i + 1 << "\"\nhardware_version = 18\n";
    }
    config.close();
    std::string program = PVRDMAD_BINARY;
    std::string flag = "--config";
    std::string file = (folder_ / "pvrdmad.toml").string();
    char* arguments[] = {program.data(), flag.data(), file.data(), nullptr};
    ASSERT_EQ(::posix_spawn(&pid_, program.c_str(), nullptr, nullptr, arguments, environ), 0);
  }
  void TearDown() override {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    std::filesystem::remove_all(folder_);
  }
  std::string socket(std::uint32_t index) const {
    return (folder_ / ("vm-0" + std::to_string(index) + ".sock")).string();
  }
  // Connects as soon as the daemon listens. The 20 s are a hang guard.
  std::unique_ptr<driver::Device> open(std::uint32_t index) {
    const Instant deadline = Instant::now() + std::chrono::seconds(20);
    while (true) {
      auto bus = driver::VfioUserBus::connect(socket(index));
      if (bus) {
        auto device = must(driver::Device::open(std::move(*bus)));
        must(device->bind_gid(0, gid_of(index)));
        return device;
      }
      if (Instant::now() > deadline) must(std::move(bus));
      ::usleep(2000);
    }
  }

  std::filesystem::path folder_;
  pid_t pid_ = 0;
};

TEST_F(Pvrdmad, serves_two_adapters_and_ends_cleanly) {
  auto first = open(0);
  auto second = open(1);
  {
    RcEndpoint a(*first, gid_of(0));
    RcEndpoint b(*second, gid_of(1));
    must(connect(a, b));
    a.fill(0, 60'000, 3);
    const driver::Sge sge = a.sge(0, 60'000);
    ASSERT_TRUE(a.qp->post_send(wr::write(1, std::span(&sge, 1), b.remote())).ok());
    driver::WorkCompletion done;
    const Instant deadline = Instant::now() + std::chrono::seconds(20);
    while (a.send_cq->poll(std::span(&done, 1)) == 0) ASSERT_LT(Instant::now(), deadline);
    EXPECT_TRUE(done.ok());
    EXPECT_TRUE(b.holds(0, 60'000, 3));
  }
  ASSERT_EQ(::kill(pid_, SIGTERM), 0);
  int status = 0;
  ASSERT_EQ(::waitpid(pid_, &status, 0), pid_);
  pid_ = 0;
  EXPECT_TRUE(WIFEXITED(status));
  EXPECT_EQ(WEXITSTATUS(status), 0);
  EXPECT_FALSE(std::filesystem::exists(socket(0)));
  EXPECT_FALSE(first->query_port());  // the adapter is gone, and the driver reports that
}

}  // namespace
}  // namespace pvrdma::test
