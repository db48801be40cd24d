// Conformance: two or more adapters joined by the path under test, and two connected QPs on the first two. A
// case that a path cannot run prints why and is skipped.
//
// Thread: one.
#pragma once

#include <array>
#include <cstring>
#include <memory>
#include <vector>

#include "gtest/gtest.h"

#include "conformance/world.h"
#include "support/must.h"
#include "support/rc_endpoint.h"

namespace pvrdma::conformance {

using driver::Sge;
using driver::WorkCompletion;
using test::must;
using test::RcEndpoint;
using Status = abi::CompletionStatus;
using Kind = abi::CompletionOpcode;
namespace wr = driver::wr;

inline std::span<const Sge> one(const Sge& sge) {
  return {&sge, sge.length == 0 ? 0U : 1U};
}

// 34 ms for an answer, and eight attempts. That is short, because tests wait for it after each lost message,
// and long enough for a kernel that carries messages on a busy machine.
inline constexpr std::uint8_t kTimeout = 11;

class Conformance : public testing::TestWithParam<PathUnderTest> {
 protected:
  explicit Conformance(std::uint32_t adapters = 2, const driver::DeviceOptions& options = {})
      : world_(GetParam(), adapters, options) {}

  static const Capabilities& can() { return GetParam().can; }
  static bool faulty() { return GetParam().faulty; }

  // Makes two endpoints on adapters 0 and 1 and connects them.
  void connect(test::EndpointOptions options = {}, test::ConnectOptions connection = {.timeout = kTimeout}) {
    a_ = endpoint(0, options);
    b_ = endpoint(1, options);
    must(test::connect(*a_, *b_, connection));
  }
  std::unique_ptr<RcEndpoint> endpoint(std::uint32_t adapter, test::EndpointOptions options = {}) {
    if (options.pd == nullptr && options.context == nullptr) options.context = &world_.context(adapter);
    return std::make_unique<RcEndpoint>(world_.device(adapter), test::gid_of(adapter), options);
  }

  // Waits for the next `count` completions.
  std::vector<WorkCompletion> await(driver::CompletionQueue& cq, std::size_t count) {
    std::vector<WorkCompletion> all(count);
    std::size_t have = 0;
    EXPECT_TRUE(world_.wait([&] {
      have += cq.poll(std::span(all).subspan(have));
      return have == count;
    })) << have
        << " of " << count << " completions came";
    all.resize(have);
    return all;
  }
  WorkCompletion await_one(driver::CompletionQueue& cq) {
    const auto all = await(cq, 1);
    return all.empty() ? WorkCompletion{.wr_id = ~0ULL, .status = Status::kGeneral} : all[0];
  }
  static bool is_empty(driver::CompletionQueue& cq) {
    WorkCompletion unused;
    return cq.poll(std::span(&unused, 1)) == 0;
  }
  static void post(RcEndpoint& end, const driver::SendRequest& request) {
    ASSERT_TRUE(end.qp->post_send(request).ok());
  }
  // Sends from a and waits for the outcome.
  WorkCompletion execute(const driver::SendRequest& request) {
    post(*a_, request);
    return await_one(*a_->send_cq);
  }
  static abi::QpState state_of(RcEndpoint& end) {
    return static_cast<abi::QpState>(must(end.qp->query()).qp_state);
  }
  static std::uint64_t load(const RcEndpoint& end, std::size_t offset) {
    std::uint64_t value = 0;
    std::memcpy(&value, end.bytes(offset), sizeof(value));
    return value;
  }
  static void store(const RcEndpoint& end, std::size_t offset, std::uint64_t value) {
    std::memcpy(end.bytes(offset), &value, sizeof(value));
  }

  World world_;
  std::unique_ptr<RcEndpoint> a_;
  std::unique_ptr<RcEndpoint> b_;
};

inline std::string name_of(const testing::TestParamInfo<PathUnderTest>& info) {
  return info.param.name;
}

}  // namespace pvrdma::conformance
