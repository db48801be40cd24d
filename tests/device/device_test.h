// DeviceTest: two adapters served on sockets by a shard thread, and a driver on each. Every test ends with
// the same three checks: the device did nothing odd, has no objects left, and noticed that its client left.
//
// Timeouts are only hang guards. Thread: the test's.
#pragma once

#include <array>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "base/log.h"
#include "base/log_writer.h"
#include "driver/driver.h"
#include "support/must.h"
#include "support/rc_endpoint.h"
#include "support/served_host.h"

namespace pvrdma::test {

using driver::Sge;
using driver::WorkCompletion;
using Status = abi::CompletionStatus;
using Kind = abi::CompletionOpcode;
namespace wr = driver::wr;

inline constexpr Duration kPatience = std::chrono::seconds(20);

// Collects the log's warnings while it exists.
class LogCapture {
 public:
  LogCapture() {
    log::flush(kPatience);  // what earlier cases logged
    log::set_level(log::Level::kWarn);
    testing::internal::CaptureStderr();
  }
  ~LogCapture() {
    if (open_) static_cast<void>(text());
    log::set_level(log::Level::kError);
  }
  std::string text() {
    open_ = false;
    log::flush(kPatience);
    return testing::internal::GetCapturedStderr();
  }

 private:
  bool open_ = true;
};

inline std::span<const Sge> one(const Sge& sge) {
  return {&sge, 1};
}

// Polls until there are `count` completions, or `patience` is over.
inline std::vector<WorkCompletion> await(driver::CompletionQueue& cq, std::size_t count,
                                         Duration patience = kPatience) {
  std::vector<WorkCompletion> all(count);
  std::size_t have = 0;
  const Instant deadline = Instant::now() + patience;
  while (have < count && cq.fault() == driver::CompletionQueue::Fault::kNone && Instant::now() < deadline) {
    have += cq.poll(std::span(all).subspan(have));
  }
  EXPECT_EQ(cq.fault(), driver::CompletionQueue::Fault::kNone);
  EXPECT_EQ(have, count) << "completions did not arrive";
  all.resize(have);
  return all;
}

inline WorkCompletion await_one(driver::CompletionQueue& cq, Duration patience = kPatience) {
  const auto all = await(cq, 1, patience);
  return all.empty() ? WorkCompletion{.wr_id = ~0ULL, .status = Status::kGeneral} : all[0];
}

inline bool is_empty(driver::CompletionQueue& cq) {
  WorkCompletion unused;
  return cq.poll(std::span(&unused, 1)) == 0;
}

// Waits until `holds` returns true, or `patience` is over.
template <typename Predicate>
bool eventually(Predicate holds, Duration patience = kPatience) {
  const Instant deadline = Instant::now() + patience;
  while (!holds()) {
    if (Instant::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::microseconds(200));
  }
  return true;
}

class DeviceTest : public ::testing::Test {
 protected:
  explicit DeviceTest(const TestbenchOptions& options = {}) : options_(options), host_(options) {}

  // Opened at the first use, with gid_of(index) bound at GID index 0.
  driver::Device& device(std::uint32_t index) {
    if (!devices_[index]) {
      devices_[index] = open(index);
      must(devices_[index]->bind_gid(0, gid_of(index)));
    }
    return *devices_[index];
  }
  std::unique_ptr<driver::Device> open(std::uint32_t index) {
    return must(
        driver::Device::open(must(driver::VfioUserBus::connect(host_.socket_path(index))), options_.driver));
  }

  void TearDown() override {
    for (std::uint32_t index = 0; index < devices_.size(); ++index) {
      if (!devices_[index]) continue;
      if (expect_tidy_) {
        EXPECT_EQ(devices_[index]->oddities(), driver::Device::Oddities{}) << "adapter " << index;
        const auto left = host_.info(index).objects;
        EXPECT_EQ(left.qps + left.cqs + left.mrs + left.pds + left.srqs + left.contexts, 0u)
            << "adapter " << index;
      }
      devices_[index].reset();
      EXPECT_TRUE(eventually([&] { return !host_.info(index).connected; })) << "adapter " << index;
    }
  }

  const TestbenchOptions options_;
  ServedHost host_;
  std::array<std::unique_ptr<driver::Device>, 4> devices_;
  bool expect_tidy_ = true;  // false: the test leaves objects behind or breaks its rings
};

// Two connected QPs, one on each adapter.
class RcTest : public DeviceTest {
 protected:
  explicit RcTest(const EndpointOptions& endpoint = {}, const ConnectOptions& connection = {},
                  const TestbenchOptions& options = {})
      : DeviceTest(options), endpoint_(endpoint), connection_(connection) {}

  void SetUp() override {
    a_ = std::make_unique<RcEndpoint>(device(0), gid_of(0), endpoint_);
    b_ = std::make_unique<RcEndpoint>(device(1), gid_of(1), endpoint_);
    must(connect(*a_, *b_, connection_));
  }
  void TearDown() override {
    a_.reset();
    b_.reset();
    DeviceTest::TearDown();
  }

  // Sends from a and returns the completion.
  WorkCompletion execute(const driver::SendRequest& request) {
    EXPECT_TRUE(a_->qp->post_send(request).ok());
    return await_one(*a_->send_cq);
  }

  EndpointOptions endpoint_;
  ConnectOptions connection_;
  std::unique_ptr<RcEndpoint> a_;
  std::unique_ptr<RcEndpoint> b_;
};

}  // namespace pvrdma::test
