// The log of written pages, compared with a reference set for all kinds of maps and ways to take the log.
#include "guestmem/dirty_log.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <random>
#include <set>
#include <vector>

#include "guestmem/copy.h"
#include "guestmem/paged_range.h"
#include "guestmem/ring.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

using Pages = std::set<std::uint64_t>;

constexpr std::uint64_t kChunkBytes = DirtyLog::kChunkPages * kPageBytes;
constexpr std::size_t kLogPages = 256;
// A base that is not at the beginning of a word.
constexpr std::uint64_t kLogBase = 0x103000;

Pages pages(std::initializer_list<std::uint64_t> offsets) {
  Pages out;
  for (const std::uint64_t offset : offsets) out.insert(kLogBase / kPageBytes + offset);
  return out;
}

Pages collect(AddressSpace& memory, std::size_t room = AddressSpace::kRunsMin) {
  Pages out;
  std::vector<PageRun> runs(room);
  for (GuestPhys from{0};;) {
    const auto collected = memory.collect_log(from, runs);
    EXPECT_TRUE(collected);
    if (!collected) return out;
    for (const PageRun& run : std::span(runs).first(collected->run_count)) {
      EXPECT_NE(run.page_count, 0u);
      for (std::uint64_t i = 0; i < run.page_count; ++i) {
        EXPECT_TRUE(out.insert(run.begin.value / kPageBytes + i).second) << "a page comes once";
      }
    }
    if (collected->is_end) return out;
    EXPECT_GT(collected->next, from);
    from = collected->next;
  }
}

// The pages of the report whose bit is set, as numbers of pages of `page_bytes`.
Pages report(AddressSpace& memory, std::uint64_t begin, std::uint64_t size,
             std::uint64_t page_bytes = kPageBytes) {
  std::vector<std::byte> bitmap(AddressSpace::bitmap_bytes(size, page_bytes), std::byte{0xff});
  EXPECT_TRUE(memory.report_log(GuestPhys(begin), size, page_bytes, bitmap));
  Pages out;
  for (std::uint64_t i = 0; i < bitmap.size() * 8; ++i) {
    if ((bitmap[i / 8] >> (i % 8) & std::byte{1}) != std::byte{0}) out.insert(begin / page_bytes + i);
  }
  return out;
}

class DirtyLogTest : public ::testing::Test {
 protected:
  DirtyLogTest() {
    ram_.map_into(memory_, kLogBase);
    EXPECT_TRUE(memory_.start_log());
  }
  bool write(std::uint64_t page, std::uint64_t offset, std::size_t size) {
    const std::vector<std::byte> bytes(size, std::byte{7});
    return guestmem::write(memory_, GuestPhys(kLogBase + page * kPageBytes + offset), bytes);
  }
  int map(std::uint64_t iova, std::uint64_t size, std::uint64_t offset = 0, bool writable = true) {
    const Result<> outcome = memory_.map(GuestPhys(iova), size, ram_.fd(), offset, true, writable);
    return outcome ? 0 : outcome.error().code;
  }

  TestRam ram_{kLogPages * kPageBytes};
  AddressSpace memory_;
};

TEST_F(DirtyLogTest, HasThePagesThatWereWritten) {
  EXPECT_EQ(collect(memory_), Pages{});
  ASSERT_TRUE(write(3, 4095, 1));
  ASSERT_TRUE(write(7, 4095, 2));
  ASSERT_TRUE(write(200, 0, 3 * kPageBytes));
  EXPECT_EQ(memory_.logged_pages(), 6u);
  EXPECT_EQ(collect(memory_), pages({3, 7, 8, 200, 201, 202}));
  EXPECT_EQ(memory_.logged_pages(), 0u);
  EXPECT_EQ(collect(memory_), Pages{});
}

TEST_F(DirtyLogTest, ReadsAndEmptyRangesAreNoWrites) {
  EXPECT_TRUE(read_object<std::uint64_t>(memory_, GuestPhys(kLogBase)));
  EXPECT_NE(memory_.translate(GuestPhys(kLogBase), 0, Access::kWrite), nullptr);
  SpanList list;
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(kLogBase), 0, Access::kWrite, list), Resolved::kAll);
  EXPECT_EQ(memory_.translate(GuestPhys(kLogBase), kLogPages * kPageBytes + 1, Access::kWrite), nullptr);
  EXPECT_EQ(collect(memory_), Pages{});
}

TEST_F(DirtyLogTest, EveryWayToAnAddressMarks) {
  EXPECT_NE(memory_.translate(GuestPhys(kLogBase), 8, Access::kWrite), nullptr);
  EXPECT_NE(memory_.translate(GuestPhys(kLogBase + kPageBytes), 8, Access::kReadWrite), nullptr);
  SpanList list;
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(kLogBase + 3 * kPageBytes), 8, Access::kWrite, list),
            Resolved::kAll);
  AddressSpace::Cursor cursor(memory_, Access::kWrite);
  EXPECT_NE(cursor.translate(GuestPhys(kLogBase + 5 * kPageBytes), 8), nullptr);
  EXPECT_NE(cursor.translate(GuestPhys(kLogBase + 9 * kPageBytes), 8), nullptr);
  EXPECT_EQ(cursor.translate(GuestPhys(kLogBase + kLogPages * kPageBytes - 4), 8), nullptr);
  AddressSpace::Cursor reader(memory_, Access::kRead);
  EXPECT_NE(reader.translate(GuestPhys(kLogBase + 11 * kPageBytes), 8), nullptr);
  PageList list_of_pages;
  list_of_pages.append(GuestPhys(kLogBase + 20 * kPageBytes));
  list_of_pages.append(GuestPhys(kLogBase + 30 * kPageBytes));
  PagedRange range;
  ASSERT_TRUE(range.assign(0, 2 * kPageBytes, list_of_pages));
  list.clear();
  EXPECT_EQ(range.resolve(memory_, 4000, 200, Access::kWrite, list), Resolved::kAll);
  EXPECT_EQ(collect(memory_), pages({0, 1, 3, 5, 9, 20, 30}));
}

TEST_F(DirtyLogTest, RightsAreAsWithoutIt) {
  ASSERT_EQ(map(0x800000, kPageBytes, 0, false), 0);
  EXPECT_EQ(memory_.translate(GuestPhys(0x800000), 8, Access::kWrite), nullptr);
  EXPECT_EQ(memory_.translate(GuestPhys(0x800000), 8, Access::kReadWrite), nullptr);
  EXPECT_NE(memory_.translate(GuestPhys(0x800000), 8, Access::kRead), nullptr);
  AddressSpace::Cursor cursor(memory_, Access::kWrite);
  EXPECT_EQ(cursor.translate(GuestPhys(0x800000), 8), nullptr);
  EXPECT_EQ(collect(memory_), Pages{});
}

TEST_F(DirtyLogTest, ARingThatKeepsAddressesMarksAgainAfterEachClearing) {
  PageList list;
  list.append(GuestPhys(kLogBase + 40 * kPageBytes));
  list.append(GuestPhys(kLogBase + 50 * kPageBytes));
  const RingShape shape{.role = RingRole::kProducer, .element_count = 64, .stride_bytes = 64};
  std::optional<GuestRing> ring = GuestRing::create(memory_, list, shape);
  ASSERT_TRUE(ring);
  const std::array<std::byte, 64> element{};
  memory_.stop_log();
  ASSERT_EQ(ring->push(element), RingStatus::kOk);
  ASSERT_TRUE(memory_.start_log());
  for (int round = 0; round < 3; ++round) {
    ASSERT_EQ(ring->push(element), RingStatus::kOk);
    ASSERT_EQ(ring->push(element), RingStatus::kOk);
    EXPECT_EQ(round == 1 ? report(memory_, kLogBase, kLogPages * kPageBytes) : collect(memory_),
              pages({40, 50}));
  }
  const std::uint64_t generation = memory_.generation();
  EXPECT_EQ(collect(memory_), Pages{});
  EXPECT_EQ(memory_.generation(), generation) << "where nothing was taken, nothing is forgotten";
}

TEST_F(DirtyLogTest, MarksOutliveTheMap) {
  ASSERT_TRUE(write(3, 0, 8));
  ASSERT_TRUE(write(250, 0, 8));
  ASSERT_EQ(memory_.unmap(GuestPhys(kLogBase), kLogPages * kPageBytes), 0);
  EXPECT_EQ(collect(memory_), Pages{}) << "what is no RAM is left out";
  EXPECT_EQ(memory_.logged_pages(), 2u) << "and stays";
  ASSERT_EQ(map(kLogBase, 100 * kPageBytes), 0);
  EXPECT_EQ(collect(memory_), pages({3}));
  ASSERT_EQ(map(kLogBase + 100 * kPageBytes, 156 * kPageBytes, 100 * kPageBytes), 0);
  EXPECT_EQ(report(memory_, kLogBase, kLogPages * kPageBytes), pages({250}));
  ASSERT_TRUE(write(99, 0, 2 * kPageBytes));
  memory_.unmap_all();
  EXPECT_EQ(memory_.log_state(), LogState::kOn);
  ASSERT_EQ(map(kLogBase, kLogPages * kPageBytes), 0);
  EXPECT_EQ(collect(memory_), pages({99, 100}));
}

TEST_F(DirtyLogTest, AMapThatComesLaterIsLogged) {
  // Before and behind the present RAM, in other chunks.
  for (const std::uint64_t iova : {5 * kChunkBytes - 2 * kPageBytes, std::uint64_t{0}}) {
    ASSERT_EQ(map(iova, 4 * kPageBytes), 0);
    ASSERT_TRUE(write_object(memory_, GuestPhys(iova + 3 * kPageBytes), std::uint64_t{1}));
    ASSERT_TRUE(write(5, 0, 8));
    Pages expected = pages({5});
    expected.insert(iova / kPageBytes + 3);
    EXPECT_EQ(collect(memory_), expected);
  }
}

TEST_F(DirtyLogTest, StartsAndStops) {
  ASSERT_TRUE(write(1, 0, 8));
  EXPECT_EQ(memory_.start_log().error().code, EBUSY);
  memory_.stop_log();
  EXPECT_EQ(memory_.log_state(), LogState::kOff);
  EXPECT_EQ(memory_.logged_pages(), 0u);
  ASSERT_TRUE(write(2, 0, 8));
  std::array<PageRun, AddressSpace::kRunsMin> runs;
  EXPECT_EQ(memory_.collect_log(GuestPhys(0), runs).error().code, EINVAL);
  std::array<std::byte, 8> bitmap;
  EXPECT_EQ(memory_.report_log(GuestPhys(0), kPageBytes, kPageBytes, bitmap).error().code, EINVAL);
  ASSERT_TRUE(memory_.start_log());
  EXPECT_EQ(collect(memory_), Pages{});
}

TEST_F(DirtyLogTest, AReportIsCheckedAndBounded) {
  std::vector<std::byte> bitmap(8);
  const auto error = [&](std::uint64_t begin, std::uint64_t size, std::uint64_t page_bytes) {
    const Result<> outcome = memory_.report_log(GuestPhys(begin), size, page_bytes, bitmap);
    return outcome ? 0 : outcome.error().code;
  };
  ASSERT_TRUE(write(0, 0, 8));
  EXPECT_EQ(error(kLogBase, 64 * kPageBytes, 2048), EINVAL);
  EXPECT_EQ(error(kLogBase, 64 * kPageBytes, 0), EINVAL);
  EXPECT_EQ(error(kLogBase, 64 * kPageBytes, 5000), EINVAL);
  EXPECT_EQ(error(kLogBase, 64 * kPageBytes, 2 * kPageBytes), EINVAL) << "not aligned";
  EXPECT_EQ(error(kLogBase, 0, kPageBytes), EINVAL);
  EXPECT_EQ(error(kLogBase, 100, kPageBytes), EINVAL);
  EXPECT_EQ(error(kLogBase, 65 * kPageBytes, kPageBytes), EINVAL) << "the bitmap is too short";
  EXPECT_EQ(error(kLogBase, (AddressSpace::kReportPagesMax + 1) * kPageBytes, kPageBytes), E2BIG);
  EXPECT_EQ(error(~std::uint64_t{0} - kPageBytes + 1, 2 * kPageBytes, kPageBytes), EINVAL);
  EXPECT_EQ(error(~std::uint64_t{0} - kPageBytes + 1, kPageBytes, kPageBytes), 0);
  EXPECT_EQ(collect(memory_), pages({0})) << "a refused one takes nothing";
}

TEST_F(DirtyLogTest, AReportTakesOnlyItsRange) {
  for (const std::uint64_t page : {9u, 10u, 75u, 76u}) ASSERT_TRUE(write(page, 0, 8));
  EXPECT_EQ(report(memory_, kLogBase + 10 * kPageBytes, 66 * kPageBytes), pages({10, 75}));
  EXPECT_EQ(collect(memory_), pages({9, 76}));
}

TEST_F(DirtyLogTest, BreaksWhereItHasNoMemoryForANewMap) {
  TestRam huge(4 * kPageBytes);
  auto account =
      std::make_shared<MappedMemory>("a test", "", MappedMemory::Limits{.bytes = std::uint64_t{1} << 30});
  AddressSpace memory(nullptr, account);
  huge.map_into(memory, 0);
  ASSERT_TRUE(memory.start_log());
  // More maps in sequence than can exist at once.
  for (std::uint64_t i = 1; i < 3 * kMaxRamMaps && memory.log_state() == LogState::kOn; ++i) {
    huge.map_into(memory, i * kChunkBytes);
    ASSERT_EQ(memory.unmap(GuestPhys(i * kChunkBytes), 4 * kPageBytes), 0);
  }
  ASSERT_EQ(memory.log_state(), LogState::kBroken);
  huge.map_into(memory, 9000 * kChunkBytes);
  EXPECT_TRUE(write_object(memory, GuestPhys(0), std::uint64_t{1})) << "the guest does not notice";
  EXPECT_TRUE(write_object(memory, GuestPhys(9000 * kChunkBytes), std::uint64_t{1}));
  std::array<PageRun, AddressSpace::kRunsMin> runs;
  EXPECT_EQ(memory.collect_log(GuestPhys(0), runs).error().code, ENODATA);
  std::array<std::byte, 8> bitmap;
  EXPECT_EQ(memory.report_log(GuestPhys(0), kPageBytes, kPageBytes, bitmap).error().code, ENODATA);
  EXPECT_EQ(memory.start_log().error().code, EBUSY);
  memory.stop_log();
  EXPECT_TRUE(memory.start_log());
}

TEST(DirtyLogChunks, CoversAllOrNothing) {
  DirtyLog log(3);
  EXPECT_TRUE(log.cover(DirtyLog::kChunkPages * 4 - 1, DirtyLog::kChunkPages * 4));
  EXPECT_FALSE(log.cover(0, DirtyLog::kChunkPages));
  EXPECT_EQ(log.chunk_count(), 2u);
  EXPECT_TRUE(log.cover(DirtyLog::kChunkPages * 3, DirtyLog::kChunkPages * 5)) << "two of them are there";
  EXPECT_EQ(log.chunk_count(), 3u);
  EXPECT_EQ(log.chunk_of(DirtyLog::kChunkPages * 5 + 7)->number, 5u);
}

// 512 GiB of guest memory.
TEST(DirtyLogChunks, CostWhatIsWritten) {
  constexpr std::uint64_t kChunks = 4096;
  const auto resident_pages = [] {
    std::uint64_t all = 0, resident = 0;
    std::ifstream("/proc/self/statm") >> all >> resident;
    return resident;
  };
  DirtyLog log(kChunks);
  const std::uint64_t before = resident_pages();
  ASSERT_NE(before, 0u);
  ASSERT_TRUE(log.cover(0, kChunks * DirtyLog::kChunkPages - 1));
  log.mark(log.chunk_of(0), 77 * DirtyLog::kChunkPages, 77 * DirtyLog::kChunkPages);
  EXPECT_LT(resident_pages(), before + kChunks / 2);
  EXPECT_EQ(log.marked_pages(), 1u);
}

// Random maps, writes and takes of a few chunks of sparse memory, seeded.
TEST(DirtyLogReference, AgreesWithASet) {
  constexpr std::uint64_t kBytes = 3 * kChunkBytes;
  for (const std::uint32_t seed : {1u, 2u, 3u, 4u}) {
    std::mt19937_64 random(seed);
    const auto below = [&random](std::uint64_t n) { return random() % n; };
    TestRam ram(kBytes);
    AddressSpace memory;
    std::map<std::uint64_t, std::uint64_t> maps;  // first page -> count
    Pages expected;
    ASSERT_TRUE(memory.start_log());
    const auto taken_of = [&](std::uint64_t first, std::uint64_t count) {
      Pages out;
      for (const auto& [page, pages_there] : maps) {
        for (auto it = expected.lower_bound(std::max(page, first));
             it != expected.end() && *it < std::min(page + pages_there, first + count);) {
          out.insert(*it);
          it = expected.erase(it);
        }
      }
      return out;
    };
    for (int step = 0; step < 3000; ++step) {
      const std::uint64_t page = below(kBytes / kPageBytes);
      switch (below(8)) {
        case 0: {
          const std::uint64_t count = 1 + below(kBytes / kPageBytes - page);
          if (memory.map(GuestPhys(page * kPageBytes), count * kPageBytes, ram.fd(), page * kPageBytes, true,
                         true))
            maps[page] = count;
          break;
        }
        case 1: {
          auto it = maps.lower_bound(page);
          if (it == maps.end()) break;
          ASSERT_EQ(memory.unmap(GuestPhys(it->first * kPageBytes), it->second * kPageBytes), 0);
          maps.erase(it);
          break;
        }
        case 2: {
          if (below(4) != 0) break;
          const std::uint64_t size = 1 + below(2000);
          if (below(2) == 0) {
            ASSERT_EQ(report(memory, page * kPageBytes, size * kPageBytes), taken_of(page, size));
          } else {
            const std::uint64_t ratio = 1u << below(9);
            const std::uint64_t begin = page / ratio * ratio;
            Pages large;
            for (const std::uint64_t each : taken_of(begin, size)) large.insert(each / ratio);
            ASSERT_EQ(report(memory, begin * kPageBytes, size * kPageBytes, ratio * kPageBytes), large);
          }
          break;
        }
        case 3:
          if (below(16) == 0) {
            ASSERT_EQ(collect(memory, AddressSpace::kRunsMin + below(40)), taken_of(0, kBytes / kPageBytes));
          }
          break;
        default: {
          const std::uint64_t length = 1 + below(below(8) == 0 ? 300 * kPageBytes : 5000);
          const std::uint64_t at = page * kPageBytes + below(kPageBytes);
          const auto it = maps.upper_bound(page);
          const bool inside = it != maps.begin() &&
                              at + length <= (std::prev(it)->first + std::prev(it)->second) * kPageBytes;
          ASSERT_EQ(memory.translate(GuestPhys(at), length, Access::kWrite) != nullptr, inside);
          if (!inside) break;
          for (std::uint64_t each = page; each <= (at + length - 1) / kPageBytes; ++each)
            expected.insert(each);
        }
      }
      ASSERT_EQ(memory.logged_pages(), expected.size());
    }
    ASSERT_EQ(collect(memory), taken_of(0, kBytes / kPageBytes));
  }
}

}  // namespace
}  // namespace pvrdma::guestmem
