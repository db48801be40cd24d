#include "device/doorbells.h"

#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <vector>

#include "device/fake_guest.h"

namespace pvrdma::device {
namespace {

using test::FakeGuest;
using test::kSend;

constexpr std::uint32_t kRecv = 1u << 31;

// The engine counts unknown handles, which shows that a word arrived, and with which value.
class DoorbellsTest : public testing::Test {
 protected:
  DoorbellsTest() { guest_.bring_up(); }
  Counters device() { return guest_.adapter().info().device_counters; }
  std::uint64_t rung() { return guest_.adapter().engine().counters().bad_doorbells; }
  int write(std::uint64_t offset, const std::vector<std::uint32_t>& words) {
    return guest_.adapter().region_write(2, offset, std::as_bytes(std::span(words)), false);
  }

  FakeGuest guest_;
};

TEST_F(DoorbellsTest, EveryActionReachesTheEngine) {
  write(0, {kSend | 100});
  write(0, {kRecv | 100});
  write(4, {1u << 29 | 100});
  write(4, {1u << 30 | 100});
  write(8, {1u << 30 | 100});
  EXPECT_EQ(rung(), 5u);
  EXPECT_EQ(device().doorbells, 5u);
  EXPECT_EQ(device().bad_accesses, 0u);
}

TEST_F(DoorbellsTest, PollIsFree) {
  write(4, {1u << 31 | 100});
  EXPECT_EQ(rung(), 0u);
  EXPECT_EQ(device().doorbells, 1u);
}

TEST_F(DoorbellsTest, CombinationsAndNoAction) {
  write(0, {kSend | kRecv | 100});
  EXPECT_EQ(rung(), 2u);
  write(0, {100});
  EXPECT_EQ(rung(), 2u);
}

TEST_F(DoorbellsTest, WideWritesAreCutIntoWords) {
  write(0, {kSend | 100, 1u << 30 | 100, 1u << 30 | 100});
  EXPECT_EQ(rung(), 3u);
  EXPECT_EQ(device().doorbells, 3u);
  write(0, {kSend, 0, 0, kSend});  // there is no fourth word
  EXPECT_EQ(device().doorbells, 6u);
  EXPECT_EQ(device().bad_accesses, 1u);
}

TEST_F(DoorbellsTest, PartsOfWordsAreNone) {
  const std::byte bytes[7] = {};
  auto& adapter = guest_.adapter();
  EXPECT_EQ(adapter.region_write(2, 0, std::span(bytes).first(1), false), 0);
  EXPECT_EQ(adapter.region_write(2, 1, std::span(bytes).first(2), false), 0);
  EXPECT_EQ(adapter.region_write(2, 2, std::span(bytes).first(4), false), 0);
  EXPECT_EQ(device().doorbells, 0u);
  EXPECT_EQ(adapter.region_write(2, 1, std::span(bytes).first(7), false), 0);  // contains the word at 4
  EXPECT_EQ(device().doorbells, 1u);
  EXPECT_EQ(device().bad_accesses, 4u);
}

TEST_F(DoorbellsTest, OnlyDoorbellPagesAndShortWrites) {
  write(std::uint64_t{1023} * 4096, {kSend | 100});
  EXPECT_EQ(device().doorbells, 1u);
  write(std::uint64_t{1024} * 4096, {kSend | 100});
  write(uar_bar_bytes(1024) - 4, {kSend | 100});
  EXPECT_EQ(device().doorbells, 1u);
  write(0, std::vector<std::uint32_t>(1 << 18, kSend | 100));
  EXPECT_EQ(device().doorbells, 1u);
  EXPECT_EQ(device().bad_accesses, 3u);
}

TEST_F(DoorbellsTest, ReadsGiveAllOnes) {
  std::array<std::byte, 24> out{};
  EXPECT_EQ(guest_.adapter().region_read(2, 4090, out), 0);
  for (const std::byte byte : out) EXPECT_EQ(byte, std::byte{0xff});
}

// One mappable page after the doorbells, and nothing else (reference 8.5).
TEST_F(DoorbellsTest, ExportsThePageAfterTheDoorbells) {
  const auto info = guest_.adapter().region_info(2);
  EXPECT_EQ(info.size, 8u << 20);
  ASSERT_EQ(info.mmap_areas.size(), 1u);
  EXPECT_EQ(info.mmap_areas[0].offset, 4u << 20);
  EXPECT_EQ(info.mmap_areas[0].size, 4096u);
  const std::uint64_t at = info.fd_offset + info.mmap_areas[0].offset;
  void* page = ::mmap(nullptr, 4096, PROT_READ | PROT_WRITE, MAP_SHARED, info.fd, static_cast<off_t>(at));
  ASSERT_NE(page, MAP_FAILED);
  static_cast<volatile char*>(page)[4095] = 1;  // the page has memory
  ::munmap(page, 4096);
  struct stat status {};
  ASSERT_EQ(::fstat(info.fd, &status), 0);
  EXPECT_LE(status.st_blocks * 512, 4096) << "sparse up to there";
  EXPECT_NE(::ftruncate(info.fd, 0), 0) << "sealed: a client cannot take it away";
}

}  // namespace
}  // namespace pvrdma::device
