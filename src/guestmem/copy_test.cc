#include "guestmem/copy.h"

#include <array>
#include <gtest/gtest.h>
#include <thread>

#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kCopyBase = 0x40000000;

class CopyTest : public ::testing::Test {
 protected:
  // Two adjacent ranges whose file pages are in the wrong order, then a read-only one.
  CopyTest() {
    map(kCopyBase, kPageBytes, true);
    map(kCopyBase + kPageBytes, 0, true);
    map(kCopyBase + 2 * kPageBytes, 2 * kPageBytes, false);
  }
  void map(std::uint64_t iova, std::uint64_t offset, bool writable) {
    ASSERT_TRUE(memory_.map(GuestPhys(iova), kPageBytes, ram_.fd(), offset, true, writable));
  }

  TestRam ram_{3 * kPageBytes};
  AddressSpace memory_;
};

TEST_F(CopyTest, ReadsAnObjectAcrossTwoRanges) {
  ram_.store<std::uint32_t>(2 * kPageBytes - 4, 0x11111111);
  ram_.store<std::uint32_t>(0, 0x22222222);
  EXPECT_EQ(read_object<std::uint64_t>(memory_, GuestPhys(kCopyBase + kPageBytes - 4)),
            0x2222222211111111ull);
}

TEST_F(CopyTest, WritesAnObjectAcrossTwoRanges) {
  EXPECT_TRUE(
      write_object(memory_, GuestPhys(kCopyBase + kPageBytes - 4), std::uint64_t{0x2222222211111111}));
  EXPECT_EQ(ram_.load<std::uint32_t>(2 * kPageBytes - 4), 0x11111111U);
  EXPECT_EQ(ram_.load<std::uint32_t>(0), 0x22222222U);
}

TEST_F(CopyTest, RefusesWhatIsNotThere) {
  EXPECT_FALSE(read_object<std::uint64_t>(memory_, GuestPhys(kCopyBase - 1)));
  EXPECT_FALSE(read_object<std::uint64_t>(memory_, GuestPhys(kCopyBase + 3 * kPageBytes - 7)));
  EXPECT_FALSE(read_object<std::uint64_t>(memory_, GuestPhys(~0ull - 3)));
  EXPECT_FALSE(write_object(memory_, GuestPhys(kCopyBase - 1), std::uint64_t{1}));
}

TEST_F(CopyTest, RefusesToWriteReadOnlyMemory) {
  EXPECT_TRUE(read_object<std::uint64_t>(memory_, GuestPhys(kCopyBase + 2 * kPageBytes)));
  EXPECT_FALSE(write_object(memory_, GuestPhys(kCopyBase + 2 * kPageBytes), std::uint64_t{1}));
}

TEST_F(CopyTest, ReadsAndWritesNothingAnywhere) {
  EXPECT_TRUE(read(memory_, GuestPhys(0), {}));
  EXPECT_TRUE(write(memory_, GuestPhys(0), {}));
}

// The device writes data, then releases the word; the guest acquires the word, then reads the data.
// ThreadSanitizer would report a missing order.
TEST(GuestWord, ReleaseAndAcquireOrderTheDataBefore) {
  alignas(4) std::array<std::byte, 4> word{};
  std::uint64_t data = 0;
  std::thread guest([&] {
    while (load_acquire_u32(word.data()) != 7) std::this_thread::yield();
    EXPECT_EQ(data, 42U);
  });
  data = 42;
  store_release_u32(word.data(), 7);
  guest.join();
  EXPECT_EQ(load_relaxed_u32(word.data()), 7U);
}

TEST(GuestWordDeathTest, AbortsOnAnUnalignedWord) {
  alignas(4) std::array<std::byte, 8> words{};
  EXPECT_DEATH(static_cast<void>(load_relaxed_u32(words.data() + 2)), "aligned");
}

}  // namespace
}  // namespace pvrdma::guestmem
