#include "guestmem/page_directory.h"

#include <gtest/gtest.h>

#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

// Guest memory of 2048 pages at kDirectoryBase: page 0 is the directory, the tables begin at page 1.
constexpr std::uint64_t kDirectoryBase = 0x80000000;
constexpr std::uint32_t kDirectoryPages = 2048;
constexpr std::uint64_t kLast = ~std::uint64_t{0};

class PageDirectoryTest : public ::testing::Test {
 protected:
  PageDirectoryTest() { ram_.map_into(memory_, kDirectoryBase); }

  static std::uint64_t gpa_of(std::uint64_t page) { return kDirectoryBase + page * kPageBytes; }
  void set_table(std::uint32_t index, std::uint64_t gpa) { ram_.store(index * 8, gpa); }
  void set_page(std::uint32_t table_page, std::uint32_t slot, std::uint64_t gpa) {
    ram_.store(table_page * kPageBytes + slot * 8, gpa);
  }
  // Fills `count` pages, the last one first, into tables at pages 1, 2 ...
  void fill(std::uint32_t count) {
    for (std::uint32_t i = 0; i < count; ++i) {
      set_table(i / 512, gpa_of(1 + i / 512));
      set_page(1 + i / 512, i % 512, gpa_of(kDirectoryPages - 1 - i));
    }
  }
  DirectoryStatus walk(std::uint32_t count, std::uint32_t limit = kMaxDirectoryPages) {
    return read_page_directory(memory_, GuestPhys(kDirectoryBase), count, limit, pages_);
  }

  TestRam ram_{kDirectoryPages * kPageBytes};
  AddressSpace memory_;
  PageList pages_;
};

TEST_F(PageDirectoryTest, ListsThePagesInOrder) {
  for (const std::uint32_t count : {1u, 2u, 511u, 512u, 513u, 1024u, 1300u}) {
    fill(count);
    ASSERT_EQ(walk(count), DirectoryStatus::kOk) << count;
    ASSERT_EQ(pages_.size(), count);
    for (std::uint32_t i = 0; i < count; ++i)
      ASSERT_EQ(pages_.at(i).value, gpa_of(kDirectoryPages - 1 - i)) << i;
  }
}

TEST_F(PageDirectoryTest, AcceptsTheLargestDirectoryThereIs) {
  // 512 directory entries that name one table of 512 entries that name one page.
  for (std::uint32_t i = 0; i < 512; ++i) set_table(i, gpa_of(1));
  for (std::uint32_t i = 0; i < 512; ++i) set_page(1, i, gpa_of(2));
  ASSERT_EQ(walk(kMaxDirectoryPages), DirectoryStatus::kOk);
  EXPECT_EQ(pages_.at(kMaxDirectoryPages - 1).value, gpa_of(2));
  EXPECT_EQ(walk(kMaxDirectoryPages + 1), DirectoryStatus::kBadCount);
}

TEST_F(PageDirectoryTest, RefusesACountOutsideTheCallersLimit) {
  fill(8);
  EXPECT_EQ(walk(0), DirectoryStatus::kBadCount);
  EXPECT_EQ(walk(9, 8), DirectoryStatus::kBadCount);
  EXPECT_EQ(walk(0xffffffff), DirectoryStatus::kBadCount);
  EXPECT_EQ(walk(8, 8), DirectoryStatus::kOk);
}

TEST_F(PageDirectoryTest, RefusesABadDirectoryPage) {
  fill(1);
  for (const std::uint64_t directory :
       {kDirectoryBase + 8, kDirectoryBase - kPageBytes, gpa_of(kDirectoryPages), kLast, kLast - 4095})
    EXPECT_EQ(read_page_directory(memory_, GuestPhys(directory), 1, 1, pages_),
              DirectoryStatus::kBadDirectory);
}

TEST_F(PageDirectoryTest, RefusesABadTable) {
  fill(513);
  for (const std::uint64_t table : {gpa_of(1) + 8, gpa_of(kDirectoryPages), std::uint64_t{0}, kLast - 4095}) {
    set_table(1, table);
    EXPECT_EQ(walk(513), DirectoryStatus::kBadTable) << table;
    EXPECT_EQ(pages_.size(), 0U);
    EXPECT_EQ(walk(512), DirectoryStatus::kOk) << "entries past the end are not looked at";
  }
}

TEST_F(PageDirectoryTest, RefusesABadPage) {
  fill(4);
  for (const std::uint64_t page :
       {gpa_of(9) + 1, gpa_of(kDirectoryPages), std::uint64_t{0}, kLast, kLast - 4095}) {
    set_page(1, 3, page);
    EXPECT_EQ(walk(4), DirectoryStatus::kBadPage) << page;
    EXPECT_EQ(pages_.size(), 0U);
    EXPECT_EQ(walk(3), DirectoryStatus::kOk) << "entries past the end are not looked at";
  }
}

TEST_F(PageDirectoryTest, RefusesAPageThatIsNoRam) {
  ASSERT_TRUE(memory_.map(GuestPhys(0), kPageBytes, Fd(), 0, true, true));
  fill(2);
  set_page(1, 1, 0);
  EXPECT_EQ(walk(2), DirectoryStatus::kBadPage);
}

TEST_F(PageDirectoryTest, KeepsTheCopyWhenTheGuestChangesItsTables) {
  fill(4);
  ASSERT_EQ(walk(4), DirectoryStatus::kOk);
  set_table(0, 0);
  set_page(1, 0, 0xdead);
  EXPECT_EQ(pages_.at(0).value, gpa_of(kDirectoryPages - 1));
}

TEST_F(PageDirectoryTest, ReplacesWhatTheListHeld) {
  fill(600);
  ASSERT_EQ(walk(600), DirectoryStatus::kOk);
  ASSERT_EQ(walk(2), DirectoryStatus::kOk);
  EXPECT_EQ(pages_.size(), 2U);
}

TEST(PageListDeathTest, AbortsOnAnIndexBeyondTheSize) {
  PageList pages;
  EXPECT_DEATH(static_cast<void>(pages.at(0)), "page index");
}

}  // namespace
}  // namespace pvrdma::guestmem
