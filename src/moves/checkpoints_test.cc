#include "moves/checkpoints.h"

#include <gtest/gtest.h>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <unistd.h>
#include <vector>

#include "motion/fake_adapter_side.h"
#include "vmm/fake_qemu.h"

namespace pvrdma::moves {
namespace {

using namespace std::chrono_literals;
using motion::FailingAdapterSide;
using vmm::FakeQemu;
using vmm::Json;

FindMonitor find_monitor(const std::string& path) {
  return [path](const std::string&) -> Result<std::string> { return path; };
}

Result<void> stays(const std::string& vm) {
  if (vm != "VM-09") return {};
  return fail(ErrorKind::kConflict, "VM-09 is on its way");
}

// A QEMU that finishes writing its VM at once.
class CheckpointsTest : public testing::Test {
 protected:
  std::optional<Json> answer(const std::string& command) {
    if (command == "query-version")
      return FakeQemu::returning({{"qemu", {{"major", 11}, {"minor", 1}, {"micro", 3}}}});
    if (command == "query-migrate-parameters")
      return FakeQemu::returning({{"max-bandwidth", 1000}, {"downtime-limit", 300}});
    if (command == "query-pci") {
      return FakeQemu::returning(
          Json::array({{{"devices", Json::array({{{"bus", 0},
                                                  {"slot", 16},
                                                  {"function", 1},
                                                  {"id", {{"vendor", 0x15ad}, {"device", 0x0820}}}}})}}}));
    }
    if (command == "migrate") migrated_ = true;
    if (command == "stop") running_ = false;
    if (command == "cont") running_ = true;
    if (command == "quit") quit_ = true;
    if (command == "query-status")
      return FakeQemu::returning({{"status", waits_ ? "inmigrate" : (running_ ? "running" : "postmigrate")}});
    if (command == "query-migrate") {
      return migrated_
                 ? FakeQemu::returning({{"status", "completed"}, {"ram", {{"total", ram_bytes_.load()}}}})
                 : FakeQemu::returning();
    }
    return FakeQemu::returning();
  }

  motion::CheckpointWish wish(const std::string& adapter = "VM-01") const {
    return {adapter, path_, "/var/lib/vms/VM-01.checkpoint"};
  }
  // Reads until the state has arrived, or the stream ends.
  static std::string read(ByteStream& stream) {
    std::string all;
    const std::string state(3, '\0');
    while (stream.read(all)) {
      if (all.ends_with("\n\x01\x02\x03")) break;
    }
    return all;
  }
  // Of what read() returned: the line before the state.
  static Json last_line_of(const std::string& all) {
    const auto lines_end = all.rfind('\n');
    const auto last_line = all.rfind('\n', lines_end - 1);
    return Json::parse(all.substr(last_line + 1, lines_end - last_line));
  }

  const std::string path_ = testing::TempDir() + "checkpoints_" + std::to_string(::getpid());
  std::atomic<bool> waits_ = false;  // the QEMU waits for a VM
  std::atomic<bool> migrated_ = false;
  std::atomic<bool> running_ = true;
  std::atomic<bool> quit_ = false;
  std::atomic<std::uint64_t> ram_bytes_ = 4096;
  FailingAdapterSide side_{""};
  const FakeQemu::Script script_ = [this](const std::string& command, const Json&) {
    return answer(command);
  };
  std::optional<FakeQemu> qemu_{std::in_place, path_, script_};
};

TEST_F(CheckpointsTest, EndsTheVmWhenItIsFinished) {
  Checkpoints checkpoints(side_, find_monitor(path_), stays);
  auto stream = checkpoints.start(wish()).value();
  const Json line = last_line_of(read(*stream));
  EXPECT_EQ(line.at("state_bytes"), 3);
  EXPECT_EQ(line.at("ram_bytes"), 4096);
  EXPECT_EQ(line.at("error"), "");
  EXPECT_TRUE(checkpoints.finish("VM-01"));
  EXPECT_TRUE(quit_);
  std::string rest;
  while (stream->read(rest)) {
  }
  EXPECT_EQ(rest, "");
  EXPECT_EQ(checkpoints.finish("VM-01").error().kind, ErrorKind::kNotFound) << "twice";
  stream.reset();
  EXPECT_FALSE(running_);
}

// The client reads the whole file before it confirms the checkpoint.
TEST_F(CheckpointsTest, WaitsLongerForAFileOfALargerVm) {
  Checkpoints checkpoints(side_, find_monitor(path_), stays);
  for (const auto& [ram_bytes, patience_s] : std::map<std::uint64_t, std::uint64_t>{
           {4096, 600}, {128ull << 30, 600 + 2048}, {~0ull, 600 + 262'144}}) {
    ram_bytes_ = ram_bytes;
    running_ = true;
    auto stream = checkpoints.start(wish()).value();
    EXPECT_EQ(last_line_of(read(*stream)).at("patience_s"), patience_s) << ram_bytes;
  }
}

TEST_F(CheckpointsTest, AVmOnItsWayIsLeftAlone) {
  Checkpoints checkpoints(side_, find_monitor("/nobody/listens/there"), stays);
  EXPECT_EQ(checkpoints.start(wish("VM-09")).error().message, "VM-09 is on its way");
  EXPECT_EQ(checkpoints.restore(wish("VM-09"), "state").error().message, "VM-09 is on its way");
  EXPECT_TRUE(running_);
}

TEST_F(CheckpointsTest, LetsTheVmGoOnWhenNobodyListensAnyMore) {
  Checkpoints checkpoints(side_, find_monitor(path_), stays);
  auto stream = checkpoints.start(wish()).value();
  read(*stream);
  EXPECT_FALSE(running_);
  stream.reset();
  EXPECT_TRUE(running_);
  EXPECT_FALSE(quit_);
  EXPECT_FALSE(side_.is_stopped());
  EXPECT_EQ(checkpoints.finish("VM-01").error().kind, ErrorKind::kNotFound);
}

TEST_F(CheckpointsTest, LetsTheVmGoOnWhenNobodySaysThatItWasKept) {
  Checkpoints checkpoints(side_, find_monitor(path_), stays, 1ms);
  auto stream = checkpoints.start(wish()).value();
  std::string all;
  while (stream->read(all)) {
  }
  EXPECT_NE(all.find("the client did not confirm that it was stored: the VM goes on"), std::string::npos);
  EXPECT_EQ(checkpoints.finish("VM-01").error().kind, ErrorKind::kNotFound);
  EXPECT_TRUE(running_);
  EXPECT_FALSE(quit_);
}

TEST_F(CheckpointsTest, ThereIsOneOfAnAdapterAndFewInAll) {
  std::vector<std::unique_ptr<FakeQemu>> others;  // a QEMU talks with one client at a time
  const auto wish_of_other = [&](const std::string& vm) {
    others.push_back(std::make_unique<FakeQemu>(path_ + vm, script_));
    motion::CheckpointWish other = wish(vm);
    other.monitor = path_ + vm;
    return other;
  };
  Checkpoints checkpoints(side_, find_monitor(path_), stays);
  std::vector<std::unique_ptr<ByteStream>> streams;
  streams.push_back(checkpoints.start(wish()).value());
  EXPECT_EQ(checkpoints.start(wish()).error().kind, ErrorKind::kConflict);
  EXPECT_EQ(checkpoints.check_none(wish().adapter).error().kind, ErrorKind::kConflict);
  EXPECT_TRUE(checkpoints.check_none("VM-11"));
  for (std::size_t i = 1; i < Checkpoints::kMax; ++i)
    streams.push_back(checkpoints.start(wish_of_other("VM-1" + std::to_string(i))).value());
  const auto one_more = wish_of_other("VM-02");
  EXPECT_EQ(checkpoints.start(one_more).error().kind, ErrorKind::kConflict);
  streams.erase(streams.begin() + 1);
  EXPECT_TRUE(checkpoints.start(one_more));
}

TEST_F(CheckpointsTest, ARestoreSaysWhatAFailureMeansForTheClient) {
  waits_ = true;
  const auto kind = [this](const std::string& fails, std::string_view state) {
    FailingAdapterSide side(fails);
    Checkpoints checkpoints(side, find_monitor(path_), stays);
    const auto restored = checkpoints.restore(wish(), state);
    EXPECT_FALSE(restored);
    return restored ? ErrorKind::kInternal : restored.error().kind;
  };
  EXPECT_EQ(kind("once side.load", "\x01\x02\x03"), ErrorKind::kUnavailable);
  EXPECT_EQ(kind("side.load", "\x01\x02\x03"), ErrorKind::kConflict);
  EXPECT_EQ(kind("", "another"), ErrorKind::kInvalid);
  waits_ = false;
  EXPECT_EQ(kind("", "\x01\x02\x03"), ErrorKind::kConflict) << "the QEMU runs a VM";
}

TEST_F(CheckpointsTest, WhatFailsIsTheLastLine) {
  qemu_.reset();
  Checkpoints checkpoints(side_, find_monitor(path_), stays);
  auto stream = checkpoints.start(wish()).value();
  std::string all;
  while (stream->read(all)) {
  }
  EXPECT_NE(Json::parse(all).at("error").get<std::string>().find(path_), std::string::npos) << all;
}

}  // namespace
}  // namespace pvrdma::moves
