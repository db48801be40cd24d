// No allocation between doorbell and completion: ten thousand operations of each kind over an InProcessBus.
// Driver and device run in one thread, and operator new is counted (docs/hot_path.md).
#include <array>

#include "gtest/gtest.h"

#include "support/counted_new.h"
#include "support/must.h"
#include "support/testbench.h"

namespace pvrdma::test {
namespace {

using driver::Sge;
using driver::WorkCompletion;
namespace wr = driver::wr;

class NoAllocation : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kOperations = 10'000;

  void SetUp() override { must(connect(a_, b_)); }
  void TearDown() override { stop_counting_allocations(); }

  // Runs `operation` once to warm up, and then counts.
  template <typename Operation>
  std::uint64_t allocations_of(Operation operation) {
    for (std::uint64_t i = 0; i < 100; ++i) operation();
    start_counting_allocations();
    for (std::uint64_t i = 0; i < kOperations; ++i) operation();
    const std::uint64_t allocations = stop_counting_allocations();
    EXPECT_EQ(failures_, 0u);
    return allocations;
  }
  void complete(driver::CompletionQueue& cq) {
    WorkCompletion done;
    while (cq.poll(std::span(&done, 1)) == 0) bench_.run(1);
    if (!done.ok()) ++failures_;
  }
  void execute(const driver::SendRequest& request) {
    if (!a_.qp->post_send(request).ok()) ++failures_;
    complete(*a_.send_cq);
  }

  Testbench bench_;
  RcEndpoint a_{bench_.device(0), gid_of(0)};
  RcEndpoint b_{bench_.device(1), gid_of(1)};
  std::uint64_t failures_ = 0;
};

TEST_F(NoAllocation, the_counter_counts) {
  start_counting_allocations();
  void* something = ::operator new(100);  // the compiler may remove a new-expression
  EXPECT_EQ(stop_counting_allocations(), 1u);
  ::operator delete(something);
}

TEST_F(NoAllocation, send_and_receive) {
  const Sge sge = a_.sge(0, 256);
  EXPECT_EQ(allocations_of([&] {
              if (!b_.recv(1, 0, 256).ok()) ++failures_;
              execute(wr::send_imm(1, std::span(&sge, 1), 5));
              complete(*b_.recv_cq);
            }),
            0u);
}

TEST_F(NoAllocation, writes_small_and_large) {
  const std::array sges{a_.sge(0, 8), a_.sge(100, 40'000), a_.sge(50'000, 0), a_.sge(50'001, 1)};
  EXPECT_EQ(allocations_of([&] { execute(wr::write(1, std::span(sges).first(1), b_.remote())); }), 0u);
  EXPECT_EQ(allocations_of([&] { execute(wr::write(1, sges, b_.remote())); }), 0u);
}

TEST_F(NoAllocation, reads_and_atomics) {
  const Sge sge = a_.sge(0, 8);
  const Sge large = a_.sge(0, 60'000);
  EXPECT_EQ(allocations_of([&] { execute(wr::read(1, std::span(&large, 1), b_.remote())); }), 0u);
  EXPECT_EQ(allocations_of([&] { execute(wr::fetch_add(1, std::span(&sge, 1), b_.remote(), 1)); }), 0u);
  EXPECT_EQ(allocations_of([&] { execute(wr::compare_swap(1, std::span(&sge, 1), b_.remote(), 1, 2)); }), 0u);
}

TEST_F(NoAllocation, events) {
  const Sge sge = a_.sge(0, 8);
  EXPECT_EQ(allocations_of([&] {
              if (!a_.send_cq->arm()) ++failures_;
              execute(wr::write(1, std::span(&sge, 1), b_.remote()));
              if (a_.send_cq->take_events() != 1) ++failures_;
            }),
            0u);
}

TEST_F(NoAllocation, receivers_that_are_not_ready) {
  const Sge sge = a_.sge(0, 8);
  EXPECT_EQ(allocations_of([&] {
              if (!a_.qp->post_send(wr::send(1, std::span(&sge, 1))).ok()) ++failures_;
              if (!b_.recv(1, 0, 256).ok()) ++failures_;
              bench_.advance(std::chrono::milliseconds(1));
              complete(*a_.send_cq);
              complete(*b_.recv_cq);
            }),
            0u);
}

}  // namespace
}  // namespace pvrdma::test
