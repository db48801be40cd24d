// No allocation between doorbell and completion: ten thousand operations of each kind over an InProcessBus,
// driver and device in one thread, with operator new counted (docs/hot_path.md).
#include <array>
#include <cstdlib>
#include <new>

#include "gtest/gtest.h"

#include "support/must.h"
#include "support/testbench.h"

namespace {

bool counting = false;
std::uint64_t allocations = 0;

void* allocate(std::size_t bytes, std::size_t alignment) {
  if (counting) ++allocations;
  void* memory = alignment <= alignof(std::max_align_t)
                     ? std::malloc(bytes)
                     : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}

}  // namespace

// GCC pairs the inlined std::free() with the operator new it sees and takes them for a mismatch.
#pragma GCC diagnostic ignored "-Wmismatched-new-delete"

void* operator new(std::size_t bytes) {
  return allocate(bytes, 0);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes, 0);
}
void* operator new(std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void* operator new[](std::size_t bytes, std::align_val_t alignment) {
  return allocate(bytes, static_cast<std::size_t>(alignment));
}
void operator delete(void* memory) noexcept {
  std::free(memory);
}
void operator delete[](void* memory) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete(void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}
void operator delete[](void* memory, std::size_t, std::align_val_t) noexcept {
  std::free(memory);
}

namespace pvrdma::test {
namespace {

using driver::Sge;
using driver::WorkCompletion;
namespace wr = driver::wr;

class NoAllocation : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kOperations = 10'000;

  void SetUp() override { must(connect(a_, b_)); }
  void TearDown() override { counting = false; }

  // Runs `operation` once for warming up, then counts.
  template <typename Operation>
  std::uint64_t allocations_of(Operation operation) {
    for (std::uint64_t i = 0; i < 100; ++i) operation();
    allocations = 0;
    counting = true;
    for (std::uint64_t i = 0; i < kOperations; ++i) operation();
    counting = false;
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
  counting = true;
  allocations = 0;
  void* something = ::operator new(100);  // a new-expression may be elided
  counting = false;
  EXPECT_EQ(allocations, 1u);
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
