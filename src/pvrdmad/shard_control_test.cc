// ShardControl's captures: where their memory goes, and what is left of one whose start fails.
#include "pvrdmad/shard_control.h"

#include <array>
#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <new>
#include <string>
#include <thread>
#include <unistd.h>
#include <vector>

#include "capture/capture.h"
#include "transport/local/local.h"

namespace {

std::atomic<int> rings = 0;                          // that there are
std::atomic<int> rings_released_here = 0;            // by a thread that must not
thread_local bool must_not_release = false;          // this thread
thread_local std::uint64_t allocations_to_fail = 0;  // this thread's next but so many; 0: none

// Before the bytes of each piece of memory.
struct alignas(std::max_align_t) Head {
  bool is_ring;  // by its size: nothing else is as long
};

void* allocate(std::size_t bytes) {
  if (allocations_to_fail != 0 && --allocations_to_fail == 0) throw std::bad_alloc();
  auto* head = static_cast<Head*>(std::malloc(sizeof(Head) + bytes));
  if (head == nullptr) throw std::bad_alloc();
  head->is_ring = bytes == pvrdma::capture::Ring::kBytes;
  if (head->is_ring) ++rings;
  return head + 1;
}

void release(void* memory) {
  if (memory == nullptr) return;
  Head* const head = static_cast<Head*>(memory) - 1;
  if (head->is_ring) {
    --rings;
    if (must_not_release) ++rings_released_here;
  }
  std::free(head);
}

}  // namespace

void* operator new(std::size_t bytes) {
  return allocate(bytes);
}
void* operator new[](std::size_t bytes) {
  return allocate(bytes);
}
void operator delete(void* memory) noexcept {
  release(memory);
}
void operator delete[](void* memory) noexcept {
  release(memory);
}
void operator delete(void* memory, std::size_t) noexcept {
  release(memory);
}
void operator delete[](void* memory, std::size_t) noexcept {
  release(memory);
}

namespace pvrdma::daemon {
namespace {

class ShardControlTest : public testing::Test {
 protected:
  void SetUp() override {
    rings_released_here = 0;
    fabric_.use(local_);
    ASSERT_TRUE(adapters_->add_static(
        {kName, socket_, {0x52, 0x54, 0, 0x12, 0x34, 0x51}, HardwareVersion::k14, RoceVersion::kV2}));
    ASSERT_TRUE(adapters_->start());
  }
  void TearDown() override {
    stop();
    adapters_.reset();
  }
  void start() {
    shard_ = std::thread([this] {
      must_not_release = true;
      loop_->run();
    });
  }
  void stop() {
    loop_->stop();
    if (shard_.joinable()) shard_.join();
  }
  static void expect_no_ring_is_left() {
    while (rings != 0) std::this_thread::yield();  // the test's time limit is the guard
    EXPECT_EQ(rings_released_here, 0);
  }

  static constexpr const char* kName = "a-virtual-machine-whose-name-takes-memory";
  const control::CaptureWish wish_{.adapter = kName, .filter = "", .snap_bytes = 256};
  const std::string socket_ =
      testing::TempDir() + "shard_control_test_" + std::to_string(::getpid()) + ".sock";
  SteadyClock clock_;
  std::unique_ptr<Reaper> reaper_ = Reaper::create().value();
  transport::Local local_;
  std::unique_ptr<shard::Loop> loop_ = shard::Loop::create({}, clock_).value();
  fabric::Fabric fabric_{clock_};
  std::unique_ptr<adapters::AdapterSet> adapters_ =
      std::make_unique<adapters::AdapterSet>(fabric_, *loop_, clock_);
  ShardControl control_{*loop_, clock_, *adapters_, fabric_, nullptr, *reaper_, "1.2.3", Injection::kAllowed};
  std::thread shard_;
};

TEST_F(ShardControlTest, AddsListsAndRemovesFaults) {
  start();
  const auto first = control_.add_fault({.adapter = kName, .drop_ppm = 10, .seed = 7});
  ASSERT_TRUE(first) << first.error().message;
  EXPECT_EQ(first->wish.seed, 7U);
  EXPECT_EQ(control_.add_fault({.adapter = kName, .drop_ppm = 20}).error().code, EBUSY);
  EXPECT_EQ(control_.add_fault({.adapter = "VM-02", .drop_ppm = 20}).error().code, ENOENT);
  const auto listed = control_.list_faults().value();
  ASSERT_EQ(listed.size(), 1U);
  EXPECT_EQ(listed[0].id, first->id);
  EXPECT_EQ(listed[0].wish.drop_ppm, 10U);
  EXPECT_EQ(control_.remove_fault(first->id + 1).error().code, ENOENT);
  EXPECT_TRUE(control_.remove_fault(first->id));
  EXPECT_TRUE(control_.list_faults()->empty());
  EXPECT_TRUE(control_.remove_fault(std::nullopt)) << "of none, all";
  const auto second = control_.add_fault({.adapter = kName, .drop_ppm = 20});
  ASSERT_TRUE(second);
  EXPECT_GT(second->id, first->id);
  EXPECT_TRUE(second->wish.seed) << "one is drawn, and told";
  EXPECT_TRUE(control_.remove_fault(std::nullopt));
  EXPECT_TRUE(control_.list_faults()->empty());
}

TEST_F(ShardControlTest, InjectsNothingUnlessItIsAllowed) {
  start();
  ShardControl control(*loop_, clock_, *adapters_, fabric_, nullptr, *reaper_, "1.2.3", Injection::kRefused);
  const auto refused = control.add_fault({.adapter = kName, .drop_ppm = 10});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, EPERM);
  EXPECT_NE(refused.error().message.find("--fault-injection"), std::string::npos);
  EXPECT_TRUE(control.list_faults()->empty());
}

TEST_F(ShardControlTest, ReleasesNoRingOnAShardThatAnswersLate) {
  control::CaptureWish unknown = wish_;
  unknown.adapter = "VM-02";
  EXPECT_EQ(control_.start_capture(unknown).error().code, ETIMEDOUT);
  EXPECT_EQ(rings, 1) << "the task's";
  start();
  expect_no_ring_is_left();
}

TEST_F(ShardControlTest, ReleasesNoRingOnTheShardThatIsAskedToLetGo) {
  start();
  {
    const auto stream = control_.start_capture(wish_).value();
    EXPECT_EQ(rings, 1);
  }
  stop();
  expect_no_ring_is_left();
}

TEST_F(ShardControlTest, LeavesNoCaptureAtAnAdapterWhenThereIsNoMemoryForItsStream) {
  start();
  bool started = false;
  for (std::uint64_t nth = 1; !started; ++nth) {
    for (std::size_t i = 0; i < capture::kCapturesMax; ++i) {
      try {
        allocations_to_fail = nth;
        const auto stream = control_.start_capture(wish_);
        started = allocations_to_fail != 0;
        allocations_to_fail = 0;
        ASSERT_TRUE(stream) << nth << ": " << stream.error().message;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  std::array<std::unique_ptr<control::ByteStream>, capture::kCapturesMax> all;
  for (auto& each : all) each = control_.start_capture(wish_).value();
  EXPECT_EQ(control_.start_capture(wish_).error().code, EBUSY);
  for (auto& each : all) each.reset();
  stop();
  expect_no_ring_is_left();
}

}  // namespace
}  // namespace pvrdma::daemon
