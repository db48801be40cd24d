#include "guestmem/sigbus.h"

#include <array>
#include <fstream>
#include <gtest/gtest.h>
#include <memory>
#include <signal.h>
#include <string>
#include <thread>

#include "guestmem/copy.h"
#include "guestmem/host_span.h"
#include "guestmem/store_way_fixture.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kFaultBase = 0x100000;
constexpr std::size_t kFaultPages = 8;

class SigbusTest : public ::testing::Test {
 protected:
  SigbusTest() {
    EXPECT_TRUE(install_sigbus_handler());
    ram_.map_into(memory_, kFaultBase);
    for (std::size_t page = 0; page < kFaultPages; ++page)
      ram_.store(page * kPageBytes, std::uint64_t{page + 1});
  }
  std::optional<std::uint64_t> read_page(std::size_t page) const {
    return read_object<std::uint64_t>(memory_, GuestPhys(kFaultBase + page * kPageBytes));
  }
  // The address as it was translated before any damage, like the pieces of a copy under way.
  std::byte* host_of(std::size_t page) const {
    return memory_.translate(GuestPhys(kFaultBase + page * kPageBytes), kPageBytes, Access::kReadWrite);
  }
  static std::uint64_t load(const std::byte* at) {
    std::uint64_t value = 0;
    std::memcpy(&value, at, sizeof(value));
    return value;
  }

  TestRam ram_{kFaultPages * kPageBytes};
  AddressSpace memory_;
};

TEST_F(SigbusTest, AnIntactFileIsNotDamaged) {
  EXPECT_EQ(read_page(7), 8U);
  EXPECT_FALSE(memory_.damaged());
}

TEST_F(SigbusTest, ATouchOfAPageTheVmmTookAwayGoesOn) {
  for (const auto touch : {touch_for_reading, touch_for_writing}) {
    TestRam ram(kFaultPages * kPageBytes);
    AddressSpace memory;
    ram.map_into(memory, kFaultBase);
    SpanList spans;
    ASSERT_EQ(
        memory.translate_pieces(GuestPhys(kFaultBase), kFaultPages * kPageBytes, Access::kReadWrite, spans),
        Resolved::kAll);
    ram.truncate(4 * kPageBytes);
    touch(spans);
    EXPECT_TRUE(memory.damaged());
  }
}

TEST_F(SigbusTest, APageTheVmmTookAwayReadsAsZeros) {
  std::byte* const third = host_of(3);
  std::byte* const fourth = host_of(4);
  ram_.truncate(4 * kPageBytes);
  EXPECT_FALSE(memory_.damaged());
  EXPECT_EQ(read_page(6), 0U);
  EXPECT_TRUE(memory_.damaged());
  EXPECT_EQ(load(third), 4U) << "what is still there stays";
  EXPECT_EQ(load(fourth), 0U);
}

TEST_F(SigbusTest, NothingOfADamagedMemoryIsUsedAgain) {
  const std::uint64_t generation = memory_.generation();
  ram_.truncate(4 * kPageBytes);
  EXPECT_EQ(read_page(6), 0U) << "the access that finds it goes on";
  EXPECT_EQ(read_page(6), std::nullopt);
  EXPECT_EQ(read_page(0), std::nullopt) << "not even what is still there";
  EXPECT_EQ(host_of(0), nullptr);
  EXPECT_NE(memory_.generation(), generation) << "so what others keep is void";
  memory_.unmap_all();
  EXPECT_NE(memory_.generation(), generation);
  EXPECT_NE(memory_.generation(), 0U);
}

// vm.max_map_count limits the whole process: one VMM must not use it up for the others.
TEST(SigbusMaps, PagesThatVanishOneByOneCostOneMapping) {
  ASSERT_TRUE(install_sigbus_handler());
  constexpr std::size_t kMany = 256;
  const auto count_maps = [] {
    std::ifstream maps("/proc/self/maps");
    std::string line;
    std::size_t count = 0;
    while (std::getline(maps, line)) ++count;
    return count;
  };
  for (const bool downwards : {false, true}) {
    TestRam ram(kMany * kPageBytes);
    AddressSpace memory;
    ram.map_into(memory, kFaultBase);
    std::byte* const host = memory.translate(GuestPhys(kFaultBase), kMany * kPageBytes, Access::kReadWrite);
    const std::size_t before = count_maps();
    ram.truncate(kPageBytes);
    // Every second page, like a guest's scattered pages.
    for (std::size_t i = 1; i < kMany; i += 2) {
      std::byte* const page = host + (downwards ? kMany - i : i) * kPageBytes;
      EXPECT_EQ(*page, std::byte{0});
      *page = std::byte{1};
    }
    EXPECT_TRUE(memory.damaged());
    // One mapping for each page would make about 250. A sanitizer maps a few for itself.
    EXPECT_LE(count_maps(), before + 10) << (downwards ? "downwards" : "upwards");
  }
}

TEST_F(SigbusTest, APageTheVmmTookAwayCanBeWritten) {
  std::byte* const host = host_of(5);
  ram_.truncate(0);
  EXPECT_TRUE(write_object(memory_, GuestPhys(kFaultBase + 5 * kPageBytes + 8), std::uint64_t{99}));
  EXPECT_TRUE(memory_.damaged());
  EXPECT_EQ(load(host), 0U);
  EXPECT_EQ(load(host + 8), 99U);
}

TEST_F(SigbusTest, TheNextVmmStartsUndamaged) {
  ram_.truncate(0);
  EXPECT_EQ(read_page(0), 0U);
  EXPECT_TRUE(memory_.damaged());
  memory_.unmap_all();
  EXPECT_FALSE(memory_.damaged());
}

TEST_F(SigbusTest, OnlyTheOwnerIsDamaged) {
  TestRam other_ram(kFaultPages * kPageBytes);
  AddressSpace other;
  other_ram.map_into(other, kFaultBase);
  ram_.truncate(0);
  EXPECT_EQ(read_page(0), 0U);
  EXPECT_TRUE(memory_.damaged());
  EXPECT_FALSE(other.damaged());
}

TEST_F(SigbusTest, EachOfSeveralMapsIsCovered) {
  ASSERT_TRUE(memory_.map(GuestPhys(0), 2 * kPageBytes, ram_.fd(), 3 * kPageBytes, true, true));
  ram_.truncate(4 * kPageBytes);
  EXPECT_EQ(read_object<std::uint64_t>(memory_, GuestPhys(0)), 4U);
  EXPECT_FALSE(memory_.damaged());
  EXPECT_EQ(read_object<std::uint64_t>(memory_, GuestPhys(kPageBytes)), 0U);
  EXPECT_TRUE(memory_.damaged());
}

TEST_F(SigbusTest, ADamagedRangeUnmapsAndMapsAgain) {
  ram_.truncate(0);
  EXPECT_EQ(read_page(2), 0U);
  memory_.unmap_all();
  TestRam fresh(kPageBytes);
  fresh.store(0, std::uint64_t{5});
  fresh.map_into(memory_, kFaultBase);
  EXPECT_EQ(read_page(0), 5U);
}

TEST_F(SigbusTest, ThreadsDamageAndRemapAtTheSameTime) {
  const auto churn = [](bool shrink) {
    for (int round = 0; round < 50; ++round) {
      TestRam ram(4 * kPageBytes);
      AddressSpace memory;
      ram.map_into(memory, kFaultBase);
      if (shrink) ram.truncate(kPageBytes);
      EXPECT_EQ(read_object<std::uint64_t>(memory, GuestPhys(kFaultBase + 2 * kPageBytes)), 0U);
      EXPECT_EQ(memory.damaged(), shrink);
    }
  };
  std::thread first(churn, true);
  std::thread second(churn, true);
  churn(false);
  first.join();
  second.join();
}

// Copies whose target or source is taken away, before and during the copy, by each kind of instruction.
class SigbusCopy : public EachStoreWay {
 protected:
  static constexpr std::size_t kBytes = 64 * kPageBytes;
  static constexpr std::size_t kOffset = 24;  // so that no page boundary of the one is one of the other

  SigbusCopy() {
    EXPECT_TRUE(install_sigbus_handler());
    ram_.map_into(memory_, kFaultBase);
    host_ = memory_.translate(GuestPhys(kFaultBase), kBytes, Access::kReadWrite);
    for (std::size_t i = 0; i < message_.size(); ++i) message_[i] = static_cast<std::byte>(1 + i % 251);
  }
  void copy_bytes(std::byte* to, std::byte* from) const {
    SpanList source;
    SpanList target;
    ASSERT_TRUE(source.append(from, message_.size()));
    ASSERT_TRUE(target.append(to, message_.size()));
    ASSERT_EQ(copy(target, source, message_.size()), message_.size());
  }

  TestRam ram_{kBytes};
  AddressSpace memory_;
  std::byte* host_ = nullptr;
  std::vector<std::byte> message_ = std::vector<std::byte>(kBytes - kOffset - 100);
};
INSTANTIATE_STORE_WAYS(SigbusCopy);

TEST_P(SigbusCopy, GoesOnWhereTheTargetVanished) {
  ram_.truncate(5 * kPageBytes);
  copy_bytes(host_ + kOffset, message_.data());
  EXPECT_TRUE(memory_.damaged());
  EXPECT_EQ(std::memcmp(host_ + kOffset, message_.data(), message_.size()), 0);
}

TEST_P(SigbusCopy, GoesOnWithZerosWhereTheSourceVanished) {
  std::memcpy(host_ + kOffset, message_.data(), message_.size());
  ram_.truncate(5 * kPageBytes);
  std::vector<std::byte> target(message_.size(), std::byte{0xff});
  copy_bytes(target.data(), host_ + kOffset);
  EXPECT_TRUE(memory_.damaged());
  for (std::size_t i = 0; i < target.size(); ++i)
    ASSERT_EQ(target[i], i + kOffset < 5 * kPageBytes ? message_[i] : std::byte{0}) << i;
}

TEST_P(SigbusCopy, GoesOnWhereTheTargetVanishesMeanwhile) {
  std::thread vmm([this] {
    for (std::size_t page = kBytes / kPageBytes; page-- > 0;) {
      ram_.truncate(page * kPageBytes);
      std::this_thread::yield();
    }
  });
  // Once damaged, the mapping keeps what is written behind the first missing page.
  while (!memory_.damaged()) copy_bytes(host_ + kOffset, message_.data());
  vmm.join();
  copy_bytes(host_ + kOffset, message_.data());
  EXPECT_EQ(std::memcmp(host_ + kOffset, message_.data(), message_.size()), 0);
}

TEST(SigbusTable, ReusesSlotsAndRefusesWhenFull) {
  std::vector<int> slots;
  std::atomic<bool> damaged = false;
  std::array<std::byte, 1> nowhere{};
  for (int slot = 0; (slot = add_sigbus_range(nowhere.data(), 0, 4096, damaged)) >= 0;) slots.push_back(slot);
  EXPECT_EQ(slots.size(), kMaxSigbusRanges);

  TestRam ram(kPageBytes);
  AddressSpace memory;
  const Result<> refused = memory.map(GuestPhys(kFaultBase), kPageBytes, ram.fd(), 0, true, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_EQ(memory.map_count(), 0U);

  remove_sigbus_range(slots.back());
  slots.pop_back();
  EXPECT_TRUE(memory.map(GuestPhys(kFaultBase), kPageBytes, ram.fd(), 0, true, true));
  for (const int slot : slots) remove_sigbus_range(slot);
}

TEST(SigbusDeathTest, AFaultOutsideGuestMemoryKills) {
  EXPECT_EXIT(
      {
        (void)install_sigbus_handler();
        TestRam ram(kPageBytes);
        ram.truncate(0);
        ram.store(0, 1);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

TEST(SigbusDeathTest, ASignalSentByAProcessKills) {
  EXPECT_EXIT(
      {
        (void)install_sigbus_handler();
        ::raise(SIGBUS);
      },
      ::testing::KilledBySignal(SIGBUS), "");
}

}  // namespace
}  // namespace pvrdma::guestmem
