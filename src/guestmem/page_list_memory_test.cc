#include "guestmem/page_list_memory.h"

#include <gtest/gtest.h>
#include <vector>

#include "guestmem/page_directory.h"

namespace pvrdma::guestmem {
namespace {

PageList list_of(PageListMemory& memory, std::uint32_t pages) {
  PageList list(memory);
  list.reserve(pages);
  list.append(GuestPhys(4096));
  return list;
}

TEST(PageListMemory, ALongListGoesBackAtOnce) {
  PageListMemory memory;
  { const PageList warm = list_of(memory, 1 << 18); }
  const std::size_t before = memory.held_bytes();
  {
    const PageList list = list_of(memory, 1 << 18);
    EXPECT_GE(memory.held_bytes(), before + (2u << 20));
    EXPECT_EQ(list.at(0).value, 4096u);
  }
  EXPECT_EQ(memory.held_bytes(), before);
}

TEST(PageListMemory, ShortListsGoBackInSlicesOnceNoneIsLeft) {
  PageListMemory memory;
  {
    std::vector<PageList> lists;
    for (int i = 0; i < 1000; ++i) lists.push_back(list_of(memory, 512));
    EXPECT_GE(memory.held_bytes(), 1000u * 4096u);
  }
  EXPECT_GE(memory.held_bytes(), 1000u * 4096u) << "they wait for the others";
  int slices = 0;
  for (; memory.held_bytes() != 0; ++slices) {
    const std::size_t before = memory.held_bytes();
    std::uint32_t budget = 4;
    memory.give_back(budget);
    EXPECT_LT(memory.held_bytes(), before);
  }
  EXPECT_GT(slices, 10);
  EXPECT_EQ(list_of(memory, 512).size(), 1u) << "it can be used again";
}

TEST(PageListMemory, ListsOfEveryLengthHaveTheirOwnMemoryAndUseFreedOnesAgain) {
  PageListMemory memory;
  std::size_t held = 0;
  for (int round = 0; round < 3; ++round) {
    std::vector<PageList> lists;
    for (std::uint32_t pages = 1; pages < 40'000; pages += 1 + pages / 3) {
      for (std::uint32_t copy = 0; copy < 20; ++copy) {
        PageList& list = lists.emplace_back(memory);
        list.reserve(pages);
        for (std::uint32_t i = 0; i < pages; ++i) list.append(GuestPhys(4096ull * (pages + copy + i)));
      }
    }
    for (const PageList& list : lists) {
      const std::uint64_t first = list.at(0).value;
      for (std::uint32_t i = 0; i < list.size(); ++i) ASSERT_EQ(list.at(i).value, first + 4096ull * i);
    }
    if (round == 0) held = memory.held_bytes();
    EXPECT_EQ(memory.held_bytes(), held) << "round " << round;
  }
}

TEST(PageListMemory, AListKeepsItsMemoryWhenItIsSwappedWithOneOfTheHeap) {
  PageListMemory memory;
  PageList mine = list_of(memory, 512);
  {
    PageList other;
    other.append(GuestPhys(8192));
    std::swap(mine, other);
    EXPECT_EQ(mine.at(0).value, 8192u);
    EXPECT_EQ(other.at(0).value, 4096u);
  }
  EXPECT_EQ(mine.at(0).value, 8192u);
}

}  // namespace
}  // namespace pvrdma::guestmem
