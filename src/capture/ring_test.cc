// Tests the ring: order, kept payload, drops when it is full, and two threads.
#include "capture/ring.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <thread>

#include "capture/capture_fixture.h"

namespace pvrdma::capture {
namespace {

using verbs::RequestOp;

constexpr std::uint32_t kAll = 262144;

TEST(Ring, GivesRecordsBackInOrderWithTheirPayloadAcrossItsEnd) {
  Ring ring(16384);
  Record got;
  std::vector<std::byte> payload;
  EXPECT_FALSE(ring.take(got, payload));
  for (std::uint32_t round = 0; round < 200; ++round) {
    auto bytes = pattern(1 + round * 37 % 5000);
    const auto spans = spans_of(bytes);
    Record record = request(RequestOp::kWrite, static_cast<std::uint32_t>(bytes.size()));
    record.request.rkey = round;
    ASSERT_TRUE(ring.put(record, &spans, kAll));
    ASSERT_TRUE(ring.take(got, payload));
    EXPECT_EQ(got.request.rkey, round);
    EXPECT_EQ(payload, bytes);
  }
  EXPECT_FALSE(ring.take(got, payload));
}

TEST(Ring, TakesNothingBeyondItsSizeAndGoesOnWhenThereIsRoom) {
  Ring ring(8192);
  auto bytes = pattern(3000);
  const auto spans = spans_of(bytes);
  const Record record = request(RequestOp::kSend, 3000);
  EXPECT_TRUE(ring.put(record, &spans, kAll));
  EXPECT_TRUE(ring.put(record, &spans, kAll));
  EXPECT_FALSE(ring.put(record, &spans, kAll));
  Record got;
  std::vector<std::byte> payload;
  ASSERT_TRUE(ring.take(got, payload));
  EXPECT_TRUE(ring.put(record, &spans, kAll));
}

TEST(Ring, KeepsTheBeginningOfEachPacket) {
  Ring ring(16384);
  auto bytes = pattern(3000);
  const auto spans = spans_of(bytes);
  Record piece = request(RequestOp::kWrite, 5000);
  piece.request.offset = 500;  // packets of 524, 1024, 1024 and 428 bytes
  piece.request.bytes = 3000;
  ASSERT_TRUE(ring.put(piece, &spans, 100));
  Record got;
  std::vector<std::byte> payload;
  ASSERT_TRUE(ring.take(got, payload));
  std::vector<std::byte> expected;
  for (const std::ptrdiff_t at : {0, 524, 1548, 2572}) {
    expected.insert(expected.end(), bytes.begin() + at, bytes.begin() + at + 100);
  }
  EXPECT_EQ(payload, expected);
  EXPECT_EQ(got.stride_bytes, 100);
}

TEST(Ring, KeepsNoPayloadThatDidNotCome) {
  Ring ring(8192);
  Record got;
  std::vector<std::byte> payload;
  ASSERT_TRUE(ring.put(request(RequestOp::kWrite, 3000), nullptr, kAll));
  ASSERT_TRUE(ring.take(got, payload));
  EXPECT_TRUE(payload.empty());
  EXPECT_EQ(got.stride_bytes, 0);
  EXPECT_EQ(got.bytes(), 3000);
}

TEST(Ring, CarriesFromOneThreadToAnother) {
  Ring ring(65536);
  constexpr std::uint32_t kRecords = 20000;
  std::uint32_t lost = 0;
  std::thread shard([&] {
    auto bytes = pattern(2000);
    for (std::uint32_t i = 0; i < kRecords; ++i) {
      const std::uint32_t size = i % 2000;
      auto part = std::vector<std::byte>(bytes.begin(), bytes.begin() + size);
      const auto spans = spans_of(part);
      Record record = request(RequestOp::kWrite, size);
      record.request.rkey = i;
      if (!ring.put(record, &spans, kAll)) ++lost;
    }
    while (!ring.put(request(RequestOp::kRead, 1), nullptr, kAll)) std::this_thread::yield();
  });
  const auto bytes = pattern(2000);
  std::uint32_t taken = 0;
  std::int64_t last = -1;
  Record got;
  std::vector<std::byte> payload;
  for (;;) {
    if (!ring.take(got, payload)) {
      std::this_thread::yield();
      continue;
    }
    if (got.request.op == RequestOp::kRead) break;
    ++taken;
    ASSERT_GT(std::int64_t{got.request.rkey}, last);
    last = got.request.rkey;
    ASSERT_EQ(payload.size(), got.request.bytes);
    ASSERT_TRUE(std::equal(payload.begin(), payload.end(), bytes.begin()));
  }
  shard.join();
  EXPECT_EQ(taken + lost, kRecords);
  EXPECT_GT(taken, 0);
}

}  // namespace
}  // namespace pvrdma::capture
