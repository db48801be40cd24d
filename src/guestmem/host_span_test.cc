#include "guestmem/host_span.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>
#include <numeric>
#include <random>
#include <vector>

#include "guestmem/store_way_fixture.h"
#include "guestmem/test_ram.h"
#include "support/manual_clock.h"
#include "support/slow_pages.h"

namespace pvrdma::guestmem {
namespace {

std::vector<std::byte> counted(std::size_t size) {
  std::vector<std::byte> out(size);
  for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<std::byte>(i * 7 + i / 256);
  return out;
}

class SpanCopy : public EachStoreWay {};
INSTANTIATE_STORE_WAYS(SpanCopy);

TEST(SpanList, MergesAPieceThatBeginsWhereTheLastOneEnds) {
  std::array<std::byte, 64> memory{};
  SpanList list;
  EXPECT_TRUE(list.append(memory.data(), 16));
  EXPECT_TRUE(list.append(memory.data() + 16, 8));
  EXPECT_TRUE(list.append(memory.data() + 32, 8));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[0].size, 24U);
  EXPECT_EQ(list[1].data, memory.data() + 32);
  EXPECT_EQ(list.bytes(), 32U);
}

TEST(SpanList, IgnoresAnEmptyPiece) {
  std::array<std::byte, 8> memory{};
  SpanList list;
  EXPECT_TRUE(list.append(memory.data(), 0));
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.bytes(), 0U);
}

TEST(SpanList, RefusesAPieceTooManyButStillMerges) {
  std::vector<std::byte> memory(3 * SpanList::kCapacity);
  SpanList list;
  for (std::size_t i = 0; i < SpanList::kCapacity; ++i) ASSERT_TRUE(list.append(memory.data() + 3 * i, 1));
  EXPECT_FALSE(list.append(memory.data() + 1, 1));
  EXPECT_EQ(list.bytes(), SpanList::kCapacity);
  EXPECT_TRUE(list.append(memory.data() + 3 * (SpanList::kCapacity - 1) + 1, 1));
  EXPECT_EQ(list.size(), SpanList::kCapacity);
  EXPECT_EQ(list.bytes(), SpanList::kCapacity + 1);
}

TEST(SpanList, RewindsOverAMergedPiece) {
  std::array<std::byte, 64> memory{};
  SpanList list;
  ASSERT_TRUE(list.append(memory.data(), 8));
  const SpanList::Mark mark = list.mark();
  ASSERT_TRUE(list.append(memory.data() + 8, 8));
  ASSERT_TRUE(list.append(memory.data() + 32, 8));
  list.rewind(mark);
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0].size, 8U);
  EXPECT_EQ(list.bytes(), 8U);
}

TEST(SpanList, RewindsToEmpty) {
  std::array<std::byte, 8> memory{};
  SpanList list;
  const SpanList::Mark mark = list.mark();
  ASSERT_TRUE(list.append(memory.data(), 8));
  list.rewind(mark);
  EXPECT_TRUE(list.empty());
  EXPECT_EQ(list.bytes(), 0U);
}

TEST(SpanList, CopiesItsPieces) {
  std::array<std::byte, 16> memory{};
  SpanList list;
  ASSERT_TRUE(list.append(memory.data(), 4));
  ASSERT_TRUE(list.append(memory.data() + 8, 4));
  const SpanList same = list;
  ASSERT_EQ(same.size(), 2U);
  EXPECT_EQ(same[1].data, memory.data() + 8);
  EXPECT_EQ(same.bytes(), 8U);
}

TEST(SpanListDeathTest, AbortsOnAnIndexBeyondTheSize) {
  SpanList list;
  EXPECT_DEATH(static_cast<void>(list[0]), "index beyond");
}

TEST_P(SpanCopy, StopsAtTheShorterOfBothListsAndTheCount) {
  const std::vector<std::byte> from = counted(8);
  std::vector<std::byte> to(8);
  SpanList src;
  SpanList dst;
  ASSERT_TRUE(src.append(const_cast<std::byte*>(from.data()), 8));
  ASSERT_TRUE(dst.append(to.data(), 6));
  EXPECT_EQ(copy(dst, src, 4), 4U);
  EXPECT_EQ(to[4], std::byte{0});
  EXPECT_EQ(copy(dst, src, 100), 6U);
  EXPECT_EQ(copy(src, SpanList(), 5), 0U);
  EXPECT_EQ(copy(SpanList(), src, 5), 0U);
  EXPECT_EQ(copy(dst, src, 0), 0U);
}

TEST_P(SpanCopy, MovesOverlappingMemoryOfOnePiece) {
  std::vector<std::byte> memory = counted(64);
  const std::vector<std::byte> before = memory;
  SpanList src;
  SpanList dst;
  ASSERT_TRUE(src.append(memory.data(), 32));
  ASSERT_TRUE(dst.append(memory.data() + 5, 32));
  EXPECT_EQ(copy(dst, src, 32), 32U);
  EXPECT_EQ(std::memcmp(memory.data() + 5, before.data(), 32), 0);
}

// 64 bytes, cut at random on both sides, arrive as the same bytes in the same order.
TEST_P(SpanCopy, KeepsTheByteOrderWhateverThePieces) {
  std::mt19937 random(20260101);
  for (int round = 0; round < 300; ++round) {
    const std::vector<std::byte> from = counted(64);
    std::vector<std::byte> to(3 * 64);
    SpanList src;
    SpanList dst;
    std::vector<std::size_t> places;  // of each byte in `to`
    for (std::size_t at = 0; at < 64;) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 9, 64 - at);
      ASSERT_TRUE(src.append(const_cast<std::byte*>(from.data()) + at, size));
      at += size;
    }
    std::size_t place = 0;
    while (places.size() < 64) {
      const std::size_t size = std::min<std::size_t>(1 + random() % 9, 64 - places.size());
      place += random() % 3;
      ASSERT_TRUE(dst.append(to.data() + place, size));
      for (std::size_t i = 0; i < size; ++i) places.push_back(place++);
    }
    const std::size_t bytes = random() % 65;
    ASSERT_EQ(copy(dst, src, bytes), bytes);
    for (std::size_t i = 0; i < 64; ++i) ASSERT_EQ(to[places[i]], i < bytes ? from[i] : std::byte{0}) << i;
  }
}

TEST(SpanTouch, ReachesEachPageOfEachPieceAndChangesNothing) {
  TestRam ram(8 * kPageBytes);
  for (std::size_t page = 0; page < 8; ++page) ram.store(page * kPageBytes + 100, page + 1);
  SpanList spans;
  ASSERT_TRUE(spans.append(ram.at(100), 2 * kPageBytes));                 // pages 0 to 2
  ASSERT_TRUE(spans.append(ram.at(5 * kPageBytes - 1), kPageBytes + 2));  // 4 to 6
  test::ManualClock clock;
  for (const auto touch : {touch_for_reading, touch_for_writing}) {
    test::SlowPages slow(Duration{1}, &clock);
    for (const std::size_t page : {0, 1, 2, 4, 5, 6}) slow.add(ram.at(page * kPageBytes));
    touch(spans);
    EXPECT_EQ(slow.touched(), 6U);
  }
  for (std::size_t page = 0; page < 8; ++page)
    EXPECT_EQ(ram.load<std::size_t>(page * kPageBytes + 100), page + 1);
}

TEST(SpanTouchDeathTest, ForWritingNeedsAPageThatCanBeWrittenTo) {
  TestRam ram(kPageBytes);
  SpanList spans;
  ASSERT_TRUE(spans.append(ram.at(0), 8));
  ASSERT_EQ(::mprotect(ram.at(0), kPageBytes, PROT_READ), 0);
  touch_for_reading(spans);
  EXPECT_DEATH(touch_for_writing(spans), "");
}

}  // namespace
}  // namespace pvrdma::guestmem
