#include "guestmem/paged_range.h"

#include <gtest/gtest.h>

#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

TEST(PagesSpanned, CountsTouchedPages) {
  EXPECT_EQ(pages_spanned(0, 0), 0U);
  EXPECT_EQ(pages_spanned(4095, 0), 0U);
  EXPECT_EQ(pages_spanned(0, 1), 1U);
  EXPECT_EQ(pages_spanned(4095, 1), 1U);
  EXPECT_EQ(pages_spanned(4095, 2), 2U);
  EXPECT_EQ(pages_spanned(0, 4096), 1U);
  EXPECT_EQ(pages_spanned(1, 4096), 2U);
  EXPECT_EQ(pages_spanned(0x1f9b2c00, 3 * 4096), 4U);
  EXPECT_EQ(pages_spanned(~0ull, 1), 1U);
  EXPECT_EQ(pages_spanned(0, ~0ull), 1ull << 52);
}

TEST(PagesSpanned, RefusesAWrap) {
  EXPECT_EQ(pages_spanned(~0ull, 2), std::nullopt);
  EXPECT_EQ(pages_spanned(1, ~0ull), 1ull << 52);
  EXPECT_EQ(pages_spanned(2, ~0ull), std::nullopt);
}

// Eight pages of RAM at kBase; the range's pages are 5, 6, 1, 3 of it.
class PagedRangeTest : public ::testing::Test {
 protected:
  static constexpr std::uint64_t kBase = 0x10000;
  static constexpr std::uint64_t kStart = 0x7f0000000c00;
  static constexpr std::uint64_t kLength = 3 * kPageBytes;  // touches four pages

  PagedRangeTest() {
    ram_.map_into(memory_, kBase);
    PageList pages = list({5, 6, 1, 3});
    EXPECT_TRUE(range_.assign(kStart, kLength, pages));
  }
  static PageList list(std::initializer_list<std::uint64_t> pages) {
    PageList out;
    for (const std::uint64_t page : pages) out.append(GuestPhys(kBase + page * kPageBytes));
    return out;
  }
  Resolved resolve(std::uint64_t va, std::uint64_t length, Access access = Access::kRead) {
    return range_.resolve(memory_, va, length, access, pieces_);
  }
  std::byte* host(std::uint64_t page, std::uint64_t offset) {
    return memory_.translate(GuestPhys(kBase + page * kPageBytes + offset), 1, Access::kRead);
  }

  TestRam ram_{8 * kPageBytes};
  AddressSpace memory_;
  PagedRange range_;
  SpanList pieces_;
};

TEST_F(PagedRangeTest, ResolvesTheWholeRangeMergingNeighbours) {
  ASSERT_EQ(resolve(kStart, kLength), Resolved::kAll);
  ASSERT_EQ(pieces_.size(), 3U);
  EXPECT_EQ(pieces_[0].data, host(5, 0xc00));
  EXPECT_EQ(pieces_[0].size, 2 * kPageBytes - 0xc00);
  EXPECT_EQ(pieces_[1].data, host(1, 0));
  EXPECT_EQ(pieces_[1].size, kPageBytes);
  EXPECT_EQ(pieces_[2].data, host(3, 0));
  EXPECT_EQ(pieces_[2].size, 0xc00U);
}

TEST_F(PagedRangeTest, ResolvesEveryByteToItsPlace) {
  const std::uint64_t order[] = {5, 6, 1, 3};
  for (std::uint64_t k = 0; k < kLength; ++k) {
    pieces_.clear();
    ASSERT_EQ(resolve(kStart + k, 1), Resolved::kAll);
    const std::uint64_t offset = 0xc00 + k;
    ASSERT_EQ(pieces_[0].data, host(order[offset / kPageBytes], offset % kPageBytes)) << k;
  }
}

TEST_F(PagedRangeTest, TranslatesWhatLiesInOnePage) {
  const auto translate = [&](std::uint64_t va, std::uint64_t length) {
    return range_.translate_in_page(memory_, va, length, Access::kWrite);
  };
  EXPECT_EQ(translate(kStart, 1), host(5, 0xc00));
  EXPECT_EQ(translate(kStart, 0x400), host(5, 0xc00));
  EXPECT_EQ(translate(kStart, 0x401), nullptr) << "although the next page lies behind it";
  EXPECT_EQ(translate(kStart + 0x400, kPageBytes), host(6, 0));
  EXPECT_EQ(translate(kStart + kLength - 1, 1), host(3, 0xbff));
  ASSERT_EQ(memory_.unmap(GuestPhys(kBase), 8 * kPageBytes), 0);
  EXPECT_EQ(translate(kStart, 1), nullptr);
}

TEST_F(PagedRangeTest, RefusesWhatIsNotInside) {
  EXPECT_EQ(resolve(kStart - 1, 1), Resolved::kFault);
  EXPECT_EQ(resolve(kStart + kLength, 1), Resolved::kFault);
  EXPECT_EQ(resolve(kStart, kLength + 1), Resolved::kFault);
  EXPECT_EQ(resolve(kStart + 1, ~0ull), Resolved::kFault);
  EXPECT_EQ(resolve(0, ~0ull), Resolved::kFault);
  EXPECT_EQ(resolve(kStart + kLength, 0), Resolved::kAll);
  EXPECT_EQ(resolve(kStart + kLength + 1, 0), Resolved::kFault);
  EXPECT_TRUE(pieces_.empty());
  EXPECT_EQ(PagedRange().resolve(memory_, 0, 1, Access::kRead, pieces_), Resolved::kFault);
}

TEST_F(PagedRangeTest, LeavesTheListAsItWasWhenAPageIsGone) {
  ASSERT_EQ(memory_.unmap(GuestPhys(kBase), 8 * kPageBytes), 0);
  ASSERT_TRUE(memory_.map(GuestPhys(kBase + 5 * kPageBytes), 2 * kPageBytes, ram_.fd(), 0, true, false));
  ASSERT_EQ(resolve(kStart, 16), Resolved::kAll);
  EXPECT_EQ(resolve(kStart + 16, kLength - 16), Resolved::kFault);
  EXPECT_EQ(resolve(kStart, 16, Access::kWrite), Resolved::kFault);
  EXPECT_EQ(pieces_.size(), 1U);
  EXPECT_EQ(pieces_.bytes(), 16U);
}

TEST_F(PagedRangeTest, GoesOnBehindAFullList) {
  PageList scattered;
  for (int i = 0; i < 200; ++i) scattered.append(GuestPhys(kBase + (i % 2 == 0 ? 2 : 4) * kPageBytes));
  ASSERT_TRUE(range_.assign(0, 200 * kPageBytes, scattered));
  ASSERT_EQ(resolve(0, 200 * kPageBytes), Resolved::kListFull);
  EXPECT_EQ(pieces_.bytes(), SpanList::kCapacity * kPageBytes);
  const std::uint64_t done = pieces_.bytes();
  pieces_.clear();
  EXPECT_EQ(resolve(done, 200 * kPageBytes - done), Resolved::kAll);
  EXPECT_EQ(pieces_.bytes(), 40 * kPageBytes);
}

TEST_F(PagedRangeTest, RefusesToBeTooLongForItsPages) {
  PageList pages = list({2, 4});
  EXPECT_FALSE(range_.assign(0x800, 2 * kPageBytes, pages));
  EXPECT_FALSE(range_.assign(0x800, 0, pages));
  EXPECT_FALSE(range_.assign(~0ull, 2, pages));
  EXPECT_EQ(pages.size(), 2U);
  EXPECT_EQ(range_.start(), kStart);
  EXPECT_EQ(range_.page_count(), 4U);
}

TEST_F(PagedRangeTest, HandsThePreviousPagesBack) {
  PageList pages = list({2, 4, 6});
  ASSERT_TRUE(range_.assign(0x800, kPageBytes, pages));
  EXPECT_EQ(range_.length(), kPageBytes);
  EXPECT_EQ(range_.page_count(), 3U);
  ASSERT_EQ(pages.size(), 4U);
  EXPECT_EQ(pages.at(0).value, kBase + 5 * kPageBytes);
}

}  // namespace
}  // namespace pvrdma::guestmem
