// Tests captures: which thread frees their memory, what remains of a capture whose
// start fails, and the file of a capture that is ended.
#include "adapters/shard_captures.h"

#include <array>
#include <atomic>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <gtest/gtest.h>
#include <map>
#include <new>
#include <string>
#include <thread>

#include "adapters/shard_fixture.h"
#include "capture/capture.h"
#include "capture/capture_fixture.h"

namespace {

std::atomic<int> rings = 0;                  // rings that exist
std::atomic<int> rings_released_here = 0;    // by a thread that must not release them
thread_local bool must_not_release = false;  // for this thread
// Which of this thread's next allocations fails, counted from 1; 0: all succeed.
thread_local std::uint64_t allocations_to_fail = 0;

// Precedes the bytes of each allocation.
struct alignas(std::max_align_t) Head {
  bool is_ring;  // recognised by its size: no other allocation has that size
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

namespace pvrdma::adapters {
namespace {

class ShardCapturesTest : public test::ShardFixture {
 protected:
  ShardCapturesTest() : ShardFixture([] { must_not_release = true; }) {}
  void SetUp() override {
    rings_released_here = 0;
    ShardFixture::SetUp();
  }
  static void expect_no_ring_is_left() {
    while (rings != 0) std::this_thread::yield();  // the test's time limit guards against hanging
    EXPECT_EQ(rings_released_here, 0);
  }

  const CaptureWish wish_{.adapter = kName, .filter = "", .snap_bytes = 256};
  ShardCaptures captures_{shards_, *reaper_, "1.2.3"};
};

TEST_F(ShardCapturesTest, ReleasesNoRingOnAShardThatAnswersLate) {
  CaptureWish unknown = wish_;
  unknown.adapter = "VM-02";
  EXPECT_EQ(captures_.start(unknown).error().code, ETIMEDOUT);
  EXPECT_EQ(rings, 1) << "the task's";
  start();
  expect_no_ring_is_left();
}

TEST_F(ShardCapturesTest, ReleasesNoRingOnTheShardThatIsAskedToLetGo) {
  start();
  {
    const auto stream = captures_.start(wish_).value();
    EXPECT_EQ(rings, 1);
  }
  stop();
  expect_no_ring_is_left();
}

TEST_F(ShardCapturesTest, LeavesNoCaptureAtAnAdapterWhenThereIsNoMemoryForItsStream) {
  start();
  bool started = false;
  for (std::uint64_t nth = 1; !started; ++nth) {
    for (std::size_t i = 0; i < capture::kCapturesMax; ++i) {
      try {
        allocations_to_fail = nth;
        const auto stream = captures_.start(wish_);
        started = allocations_to_fail != 0;
        allocations_to_fail = 0;
        ASSERT_TRUE(stream) << nth << ": " << stream.error().message;
      } catch (const std::bad_alloc&) {
      }
    }
  }
  std::array<std::unique_ptr<ByteStream>, capture::kCapturesMax> all;
  for (auto& each : all) each = captures_.start(wish_).value();
  EXPECT_EQ(captures_.start(wish_).error().kind, ErrorKind::kConflict);
  for (auto& each : all) each.reset();
  stop();
  expect_no_ring_is_left();
}

TEST_F(ShardCapturesTest, GivesACaptureThatIsEndedTheRestOfItsRing) {
  constexpr std::uint32_t kMessages = 80;
  constexpr std::uint32_t kFramesOfOne = verbs::kPieceBytesMax / 1024;
  start();
  const auto stream = captures_.start(wish_).value();
  const auto said = shards_.on(
      kName,
      [](ServedAdapter& served) -> Result<void> {
        const capture::Record record = capture::request(verbs::RequestOp::kWrite, kFramesOfOne * 1024);
        for (std::uint32_t i = 0; i < kMessages; ++i)
          served.tap().on_request(verbs::Direction::kInbound, record.request, nullptr, abi::Mtu::k1024,
                                  Instant::now());
        return {};
      },
      "saying something");
  ASSERT_TRUE(said) << said.error().message;
  ASSERT_TRUE(captures_.end(captures_.list()[0].id));
  std::string file;
  while (stream->read(file)) ASSERT_LT(file.size(), std::size_t{100} << 20);
  EXPECT_GT(file.size(), std::size_t{1} << 20) << "more than one read() gives";
  std::map<std::uint32_t, std::uint32_t> counts;  // of each type of block
  std::uint32_t head[2] = {};                     // type and length
  for (std::size_t at = 0; at < file.size(); at += head[1]) {
    std::memcpy(head, file.data() + at, sizeof head);
    ASSERT_GE(head[1], 12U);
    ++counts[head[0]];
  }
  EXPECT_EQ(counts[6], kMessages * kFramesOfOne) << "frames";
  EXPECT_GE(counts[5], transport::kPathKinds) << "statistics";
  EXPECT_EQ(head[0], 5U) << "the file ends with statistics";
}

TEST_F(ShardCapturesTest, ListsWhatRunsAndEndsOneByItsId) {
  start();
  EXPECT_TRUE(captures_.list().empty());
  auto first = captures_.start(wish_).value();
  const auto second = captures_.start(wish_).value();
  auto listed = captures_.list();
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0].adapter, kName);
  EXPECT_EQ(listed[0].snap_bytes, 256U);
  EXPECT_LT(listed[0].id, listed[1].id);
  EXPECT_NE(listed[0].started_s, 0U);
  std::string file;
  EXPECT_TRUE(first->read(file));
  EXPECT_EQ(captures_.list()[0].sent_bytes, file.size());
  ASSERT_TRUE(captures_.end(listed[0].id));
  EXPECT_FALSE(first->read(file)) << "the file is complete";
  first.reset();
  EXPECT_EQ(captures_.end(listed[0].id).error().kind, ErrorKind::kNotFound) << "it has gone";
  ASSERT_EQ(captures_.list().size(), 1U);
  EXPECT_EQ(captures_.list()[0].id, listed[1].id);
  std::string other;
  EXPECT_TRUE(second->read(other)) << "the other one goes on";
}

}  // namespace
}  // namespace pvrdma::adapters
