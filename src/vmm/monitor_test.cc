#include "vmm/monitor.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "vmm/fake_qemu.h"

namespace pvrdma::vmm {
namespace {

using namespace std::chrono_literals;

class MonitorTest : public testing::Test {
 protected:
  Result<std::unique_ptr<Monitor>> connect() { return Monitor::connect(path_, Instant::now()); }
  // The error of the one command that the test sends to this QEMU.
  Error error_of(FakeQemu::Script script) {
    const FakeQemu qemu(path_, std::move(script));
    const auto monitor = connect().value();
    return monitor->execute("query-status").error();
  }

  const std::string path_ = testing::TempDir() + "monitor_test_" + std::to_string(::getpid()) + ".qmp";
};

TEST_F(MonitorTest, ExecutesCommandsAndPassesEventsOver) {
  const FakeQemu qemu(path_, [](const std::string& command, const Json& arguments) -> std::optional<Json> {
    if (command == "human-monitor-command") return FakeQemu::returning(arguments.at("command-line"));
    return R"({"event": "STOP", "timestamp": {}})"
           "\r\n"
           R"({"return": {"status": "paused"}})";
  });
  const auto monitor = connect().value();
  EXPECT_EQ(monitor->pid(), ::getpid());
  EXPECT_EQ(text_of(*monitor->execute("query-status"), "status").value(), "paused");
  EXPECT_EQ(monitor->human("i /w 0xcf8").value(), "i /w 0xcf8");
}

TEST_F(MonitorTest, ARefusalIsQemusOwnSentenceAndEndsNothing) {
  const FakeQemu qemu(path_, [](const std::string& command, const Json&) -> std::optional<Json> {
    return command == "cont" ? FakeQemu::refusing("no such luck") : FakeQemu::returning(7);
  });
  const auto monitor = connect().value();
  const auto refused = monitor->execute("cont");
  EXPECT_EQ(refused.error().code, EREMOTEIO);
  EXPECT_EQ(refused.error().message, "QEMU refuses cont: no such luck");
  EXPECT_EQ(monitor->execute("query-status").value(), 7);
  EXPECT_EQ(text_of(Json(7), "status").error().message, "QEMU's answer has no text \"status\"");
}

TEST_F(MonitorTest, WhatIsNoAnswerEndsIt) {
  const std::vector<std::pair<std::string, int>> wrong = {
      {"no JSON", EPROTO},
      {"[]", EPROTO},
      {"{}", EPROTO},
      {std::string(1000, '[') + std::string(1000, ']'), EPROTO},
      {std::string(Monitor::kLineBytesMax + 100'000, ' '), EPROTO}};
  for (const auto& [line, code] : wrong) {
    EXPECT_EQ(error_of([&line = line](const std::string&, const Json&) { return Json(line); }).code, code)
        << line.substr(0, 20);
  }
  const FakeQemu qemu(path_, [](const std::string&, const Json&) { return std::nullopt; });
  const auto monitor = connect().value();
  EXPECT_EQ(monitor->execute("query-status").error().message,
            "QEMU's monitor at " + path_ + ": QEMU has gone");
  EXPECT_EQ(monitor->execute("query-status").error().code, EPIPE);
}

// The kernel resets a connection whose end has not read everything.
TEST_F(MonitorTest, AQemuThatDiesOverACommandHasGone) {
  const auto listener =
      UnixListener::listen(path_, {.what = "fake QEMU", .mode = 0600, .backlog = 1}).value();
  std::jthread qemu([&] {
    pollfd comes{listener->fd(), POLLIN, 0};
    ::poll(&comes, 1, -1);
    const Fd client(::accept4(listener->fd(), nullptr, nullptr, SOCK_CLOEXEC));
    const auto say = [&](const std::string& line) { ::send(client.get(), line.data(), line.size(), 0); };
    pollfd ready{client.get(), POLLIN, 0};
    say("{\"QMP\": {}}\r\n");
    std::array<char, 4096> bytes{};
    while (::recv(client.get(), bytes.data(), bytes.size(), 0) > 0 &&
           std::ranges::find(bytes, '\n') == bytes.end()) {
    }
    say("{\"return\": {}}\r\n");
    ::poll(&ready, 1, -1);
  });
  const auto monitor = connect().value();
  const Error error = monitor->execute("quit").error();
  qemu.join();
  EXPECT_EQ(error.message, "QEMU's monitor at " + path_ + ": QEMU has gone");
  EXPECT_EQ(error.code, EPIPE);
}

TEST_F(MonitorTest, SaysWhyItCannotConnect) {
  EXPECT_EQ(connect().error().code, ENOENT);
  EXPECT_EQ(Monitor::connect(std::string(200, 'x'), Instant::now()).error().code, ENAMETOOLONG);
  const FakeQemu qemu(
      path_, [](const std::string&, const Json&) { return std::nullopt; }, R"({"SMTP": 1})");
  EXPECT_EQ(connect().error().message,
            "QEMU's monitor at " + path_ + ": the program that listens there is not a QMP monitor");
}

TEST_F(MonitorTest, WaitsForOneThatIsNotThereYet) {
  std::optional<FakeQemu> qemu;
  std::thread later([&] {
    std::this_thread::sleep_for(20ms);
    qemu.emplace(path_, [](const std::string&, const Json&) { return FakeQemu::returning(); });
  });
  EXPECT_TRUE(Monitor::connect(path_, Instant::now() + 60s));
  later.join();
}

}  // namespace
}  // namespace pvrdma::vmm
