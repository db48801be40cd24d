#include "guestmem/address_space.h"

#include <array>
#include <cerrno>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/memfd.h>
#include <mutex>
#include <optional>
#include <stdlib.h>
#include <sys/mman.h>
#include <thread>
#include <vector>

#include "guestmem/host_mapping.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kBase = 0x100000;
constexpr std::size_t kSize = 16 * kPageBytes;

class AddressSpaceTest : public ::testing::Test {
 protected:
  // Returns the errno of a refused map, 0 for an accepted one.
  int map(std::uint64_t iova, std::uint64_t size, std::uint64_t offset = 0, bool readable = true,
          bool writable = true) {
    const Result<> outcome = memory_.map(GuestPhys(iova), size, ram_.fd(), offset, readable, writable);
    return outcome ? 0 : outcome.error().code;
  }
  int map_hole(std::uint64_t iova, std::uint64_t size) {
    const Result<> outcome = memory_.map(GuestPhys(iova), size, Fd(), 0, true, true);
    return outcome ? 0 : outcome.error().code;
  }
  std::byte* translate(std::uint64_t gpa, std::uint64_t length, Access access = Access::kReadWrite) const {
    return memory_.translate(GuestPhys(gpa), length, access);
  }

  TestRam ram_{kSize};
  AddressSpace memory_;
};

TEST_F(AddressSpaceTest, TranslatesToTheBytesOfTheFile) {
  ASSERT_EQ(map(kBase, 4 * kPageBytes, 2 * kPageBytes), 0);
  ram_.store<std::uint32_t>(2 * kPageBytes + 100, 0xabad1dea);
  std::byte* host = translate(kBase + 100, 4);
  ASSERT_NE(host, nullptr);
  std::uint32_t seen = 0;
  std::memcpy(&seen, host, 4);
  EXPECT_EQ(seen, 0xabad1deaU);
}

TEST_F(AddressSpaceTest, TranslatesExactlyTheRange) {
  ASSERT_EQ(map(kBase, kSize), 0);
  EXPECT_NE(translate(kBase, kSize), nullptr);
  EXPECT_NE(translate(kBase + kSize - 1, 1), nullptr);
  EXPECT_EQ(translate(kBase, kSize + 1), nullptr);
  EXPECT_EQ(translate(kBase - 1, 1), nullptr);
  EXPECT_EQ(translate(kBase - 1, 2), nullptr);
  EXPECT_EQ(translate(kBase + kSize, 1), nullptr);
  EXPECT_EQ(translate(kBase + kSize - 1, 2), nullptr);
  EXPECT_EQ(translate(kBase + 1, ~0ull), nullptr);
  EXPECT_EQ(translate(~0ull, 1), nullptr);
}

TEST_F(AddressSpaceTest, NeedsTheAddressOfAnEmptyLengthCovered) {
  ASSERT_EQ(map(kBase, kSize), 0);
  EXPECT_NE(translate(kBase, 0), nullptr);
  EXPECT_EQ(translate(kBase + kSize, 0), nullptr);
}

TEST_F(AddressSpaceTest, ChecksTheRight) {
  ASSERT_EQ(map(kBase, kPageBytes, 0, true, false), 0);
  ASSERT_EQ(map(kBase + kPageBytes, kPageBytes, 0, false, true), 0);
  EXPECT_NE(translate(kBase, 8, Access::kRead), nullptr);
  EXPECT_EQ(translate(kBase, 8, Access::kWrite), nullptr);
  EXPECT_EQ(translate(kBase, 8, Access::kReadWrite), nullptr);
  EXPECT_EQ(translate(kBase + kPageBytes, 8, Access::kRead), nullptr);
  EXPECT_NE(translate(kBase + kPageBytes, 8, Access::kWrite), nullptr);
}

TEST_F(AddressSpaceTest, RefusesImpossibleRanges) {
  EXPECT_EQ(map(kBase, 0), EINVAL);
  EXPECT_EQ(map(kBase + 1, kPageBytes), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes + 1), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes, 1), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes, 0, false, false), EINVAL);
  EXPECT_EQ(map(~0ull - kPageBytes + 1, 2 * kPageBytes), EINVAL);
  EXPECT_EQ(map_hole(0, kMaxMapBytes + kPageBytes), EINVAL);
  EXPECT_EQ(memory_.map_count(), 0U);
  EXPECT_EQ(memory_.generation(), 1U);
}

TEST_F(AddressSpaceTest, MapsTheLastPageOfAFileThatEndsWithinIt) {
  ASSERT_EQ(::ftruncate(ram_.fd().get(), kSize - kPageBytes + 1), 0);
  ASSERT_EQ(map(kBase, kPageBytes, kSize - kPageBytes), 0);
  std::byte* const host = translate(kBase, kPageBytes);
  ASSERT_NE(host, nullptr);
  host[kPageBytes - 1] = std::byte{42};
  EXPECT_EQ(host[kPageBytes - 1], std::byte{42});
  EXPECT_EQ(map(2 * kBase, 2 * kPageBytes, kSize - kPageBytes), EINVAL);
  ASSERT_EQ(::ftruncate(ram_.fd().get(), kSize - kPageBytes), 0);
  EXPECT_EQ(map(2 * kBase, kPageBytes, kSize - kPageBytes), EINVAL);
}

TEST_F(AddressSpaceTest, RefusesAFileThatEndsBeforeTheRange) {
  EXPECT_EQ(map(kBase, kSize + kPageBytes), EINVAL);
  EXPECT_EQ(map(kBase, kSize, kPageBytes), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes, kSize), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes, ~0ull - kPageBytes + 1), EINVAL);
  EXPECT_EQ(map(kBase, kPageBytes, kSize - kPageBytes), 0);
}

TEST_F(AddressSpaceTest, RefusesAFileWhosePagesCouldBeSlow) {
  std::array<char, 32> name{"/var/tmp/pvrdma-XXXXXX"};
  const Fd probe(::mkstemp(name.data()));
  ASSERT_TRUE(probe);
  ::unlink(name.data());
  ASSERT_EQ(::ftruncate(probe.get(), kPageBytes), 0);
  const Result<> outcome = memory_.map(GuestPhys(kBase), kPageBytes, Fd(::dup(probe.get())), 0, true, true);
  if (outcome) GTEST_SKIP() << "/var/tmp is a tmpfs here";
  EXPECT_EQ(outcome.error().code, EOPNOTSUPP);
}

TEST_F(AddressSpaceTest, ReportsADescriptorThatIsNoFile) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const Fd keep(ends[1]);
  const Result<> outcome = memory_.map(GuestPhys(kBase), kPageBytes, Fd(ends[0]), 0, true, true);
  ASSERT_FALSE(outcome);
  EXPECT_NE(outcome.error().code, 0);
  EXPECT_NE(outcome.error().message.find("0x100000"), std::string::npos) << outcome.error().message;
}

TEST_F(AddressSpaceTest, RefusesEveryOverlap) {
  ASSERT_EQ(map(kBase, 4 * kPageBytes), 0);
  EXPECT_EQ(map(kBase, 4 * kPageBytes), EEXIST);
  EXPECT_EQ(map(kBase - kPageBytes, 2 * kPageBytes), EEXIST);
  EXPECT_EQ(map(kBase + 3 * kPageBytes, 2 * kPageBytes), EEXIST);
  EXPECT_EQ(map(kBase + kPageBytes, kPageBytes), EEXIST);
  EXPECT_EQ(map(kBase - kPageBytes, 6 * kPageBytes), EEXIST);
  EXPECT_EQ(map_hole(kBase, kPageBytes), EEXIST);
  EXPECT_EQ(map(kBase - kPageBytes, kPageBytes), 0);
  EXPECT_EQ(map(kBase + 4 * kPageBytes, kPageBytes), 0);
  EXPECT_EQ(memory_.map_count(), 3U);
}

TEST_F(AddressSpaceTest, RemembersARangeWithoutAFileButNeverTranslatesIt) {
  ASSERT_EQ(map_hole(kBase, kMaxMapBytes), 0);
  EXPECT_EQ(translate(kBase, 1, Access::kRead), nullptr);
  EXPECT_EQ(map(kBase + kPageBytes, kPageBytes), EEXIST);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), kMaxMapBytes), 0);
  EXPECT_EQ(map(kBase + kPageBytes, kPageBytes), 0);
}

TEST_F(AddressSpaceTest, CutsNoRange) {
  ASSERT_EQ(map(kBase, 2 * kPageBytes), 0);
  const std::uint64_t generation = memory_.generation();
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), kPageBytes), EINVAL);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase + kPageBytes), kPageBytes), EINVAL);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase - kPageBytes), 2 * kPageBytes), EINVAL);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase + kPageBytes), 4 * kPageBytes), EINVAL);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase - kPageBytes), kPageBytes), ENOENT);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase + 2 * kPageBytes), kPageBytes), ENOENT);
  EXPECT_NE(translate(kBase, 1), nullptr);
  EXPECT_EQ(memory_.generation(), generation);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), 2 * kPageBytes), 0);
  EXPECT_EQ(translate(kBase, 1), nullptr);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), 2 * kPageBytes), ENOENT);
}

// virtio-mem takes many blocks from the guest, and QEMU sends one message for all of them.
TEST_F(AddressSpaceTest, UnmapsAllRangesInsideOne) {
  for (std::uint64_t i = 0; i < 8; ++i) ASSERT_EQ(map(kBase + 2 * i * kPageBytes, kPageBytes), 0);
  ASSERT_EQ(map_hole(kBase + 16 * kPageBytes, kPageBytes), 0);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase + kPageBytes), 5 * kPageBytes), 0) << "the second and the third";
  EXPECT_EQ(memory_.map_count(), 7U);
  EXPECT_EQ(memory_.ram_bytes(), 6 * kPageBytes);
  EXPECT_EQ(translate(kBase + 2 * kPageBytes, 1), nullptr);
  EXPECT_EQ(translate(kBase + 4 * kPageBytes, 1), nullptr);
  EXPECT_NE(translate(kBase, 1), nullptr);
  EXPECT_NE(translate(kBase + 6 * kPageBytes, 1), nullptr);
  EXPECT_EQ(map(kBase + 2 * kPageBytes, 3 * kPageBytes), 0) << "their place is free";
  EXPECT_EQ(memory_.unmap(GuestPhys(0), kMaxMapBytes), 0);
  EXPECT_EQ(memory_.map_count(), 0U);
  EXPECT_EQ(memory_.ram_bytes(), 0U);
}

TEST_F(AddressSpaceTest, ForgetsEverythingAtOnce) {
  ASSERT_EQ(map(kBase, kPageBytes), 0);
  ASSERT_EQ(map_hole(0, kPageBytes), 0);
  memory_.unmap_all();
  EXPECT_EQ(memory_.map_count(), 0U);
  EXPECT_EQ(translate(kBase, 1), nullptr);
  EXPECT_EQ(map(kBase, kPageBytes), 0);
}

TEST_F(AddressSpaceTest, ChangesGenerationWithEveryChangeOnly) {
  const std::uint64_t start = memory_.generation();
  ASSERT_EQ(map(kBase, kPageBytes), 0);
  EXPECT_EQ(memory_.generation(), start + 1);
  ASSERT_EQ(map(kBase, kPageBytes), EEXIST);
  ASSERT_EQ(memory_.unmap(GuestPhys(0), kPageBytes), ENOENT);
  EXPECT_NE(translate(kBase, 1), nullptr);
  EXPECT_EQ(memory_.generation(), start + 1);
  ASSERT_EQ(memory_.unmap(GuestPhys(kBase), kPageBytes), 0);
  EXPECT_EQ(memory_.generation(), start + 2);
  memory_.unmap_all();
  EXPECT_EQ(memory_.generation(), start + 3);
}

TEST_F(AddressSpaceTest, DoesNotBelieveItsLastHitAfterAChange) {
  ASSERT_EQ(map(0, kPageBytes, 0), 0);
  ASSERT_EQ(map(2 * kPageBytes, kPageBytes, kPageBytes), 0);
  ASSERT_NE(translate(2 * kPageBytes, 1), nullptr);
  ASSERT_EQ(memory_.unmap(GuestPhys(0), kPageBytes), 0);
  EXPECT_NE(translate(2 * kPageBytes, 1), nullptr);
  EXPECT_EQ(translate(0, 1), nullptr);
  ASSERT_EQ(memory_.unmap(GuestPhys(2 * kPageBytes), kPageBytes), 0);
  EXPECT_EQ(translate(2 * kPageBytes, 1), nullptr);
}

TEST_F(AddressSpaceTest, FindsEachOfManyRanges) {
  for (std::uint64_t i = 0; i < 16; ++i) ASSERT_EQ(map((2 * (i * 7 % 16) + 1) * kPageBytes, kPageBytes), 0);
  for (std::uint64_t page = 0; page < 34; ++page)
    EXPECT_EQ(translate(page * kPageBytes + 5, 1) != nullptr, page % 2 == 1 && page < 32) << page;
}

TEST_F(AddressSpaceTest, BoundsTheNumberOfMaps) {
  for (std::uint64_t i = 0; i < kMaxRamMaps; ++i) ASSERT_EQ(map(i * kPageBytes, kPageBytes), 0);
  EXPECT_EQ(map(kMaxRamMaps * kPageBytes, kPageBytes), ENOSPC);
  for (std::uint64_t i = kMaxRamMaps; i < kMaxMaps; ++i) ASSERT_EQ(map_hole(i * kPageBytes, kPageBytes), 0);
  EXPECT_EQ(map_hole(kMaxMaps * kPageBytes, kPageBytes), ENOSPC);
  ASSERT_EQ(memory_.unmap(GuestPhys(kMaxRamMaps * kPageBytes), kPageBytes), 0);
  EXPECT_EQ(map(kMaxRamMaps * kPageBytes, kPageBytes), ENOSPC) << "a hole gone makes no room for memory";
  ASSERT_EQ(memory_.unmap(GuestPhys(0), kPageBytes), 0);
  EXPECT_EQ(map(0, kPageBytes), 0);
}

TEST_F(AddressSpaceTest, ResolvesARangeOverSeveralMapsInPieces) {
  ASSERT_EQ(map(kBase, kPageBytes, 0), 0);
  ASSERT_EQ(map(kBase + kPageBytes, kPageBytes, 8 * kPageBytes), 0);
  EXPECT_EQ(translate(kBase + 4000, 200), nullptr);
  SpanList pieces;
  ASSERT_EQ(memory_.translate_pieces(GuestPhys(kBase + 4000), 200, Access::kRead, pieces), Resolved::kAll);
  EXPECT_EQ(pieces.bytes(), 200U);
  EXPECT_EQ(pieces[0].data, translate(kBase + 4000, 96));
  EXPECT_EQ(pieces[pieces.size() - 1].data + pieces[pieces.size() - 1].size,
            translate(kBase + kPageBytes, 104) + 104);
}

TEST_F(AddressSpaceTest, LeavesTheListAsItWasWhenAPieceIsMissing) {
  ASSERT_EQ(map(kBase, kPageBytes), 0);
  ASSERT_EQ(map_hole(kBase + kPageBytes, kPageBytes), 0);
  SpanList pieces;
  ASSERT_EQ(memory_.translate_pieces(GuestPhys(kBase), 8, Access::kRead, pieces), Resolved::kAll);
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(kBase + 8), kPageBytes, Access::kRead, pieces),
            Resolved::kFault);
  EXPECT_EQ(pieces.bytes(), 8U);
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(0), 8, Access::kRead, pieces), Resolved::kFault);
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(0), 0, Access::kRead, pieces), Resolved::kAll);
}

TEST_F(AddressSpaceTest, GivesAPrefixWhenTheListIsFull) {
  // Every range names the same file page, so that no two pieces are contiguous.
  const std::uint64_t count = SpanList::kCapacity + 10;
  for (std::uint64_t i = 0; i < count; ++i) ASSERT_EQ(map(i * kPageBytes, kPageBytes), 0);
  SpanList pieces;
  for (std::uint64_t i = 0; i + 1 < SpanList::kCapacity; ++i) ASSERT_TRUE(pieces.append(ram_.at(2 * i), 1));
  EXPECT_EQ(memory_.translate_pieces(GuestPhys(0), count * kPageBytes, Access::kRead, pieces),
            Resolved::kListFull);
  EXPECT_EQ(pieces.size(), SpanList::kCapacity);
  EXPECT_EQ((pieces.bytes() - (SpanList::kCapacity - 1)) % kPageBytes, 0U);
}

TEST_F(AddressSpaceTest, MapsPartOfAFileOfHugePages) {
  const std::size_t huge = 2u << 20;
  const Fd file(::memfd_create("huge-ram", MFD_CLOEXEC | MFD_HUGETLB | MFD_HUGE_2MB));
  if (!file || ::ftruncate(file.get(), 2 * huge) != 0) GTEST_SKIP() << "no huge page support";
  const Result<> outcome =
      memory_.map(GuestPhys(kBase), 2 * kPageBytes, Fd(::dup(file.get())), 3 * kPageBytes, true, true);
  if (!outcome && outcome.error().code == ENOMEM) GTEST_SKIP() << "no huge pages reserved";
  ASSERT_TRUE(outcome) << outcome.error().message;
  ASSERT_NE(translate(kBase, 2 * kPageBytes), nullptr);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(translate(kBase, 1)) % huge, 3 * kPageBytes);
}

// A sparse file costs a VMM nothing, but each map of it costs address space of the daemon.
TEST(AddressSpaceAccount, BytesMappedAreBoundedAndTheRefusalNamesTheLimit) {
  const Fd sparse(::memfd_create("sparse", MFD_CLOEXEC));
  constexpr std::uint64_t kFile = 1ull << 30;
  ASSERT_EQ(::ftruncate(sparse.get(), kFile), 0);
  const auto all = std::make_shared<MappedMemory>("all adapters together", "total_",
                                                  MappedMemory::Limits{.bytes = 3 * kFile});
  AddressSpace first(nullptr, std::make_shared<MappedMemory>("the first", "",
                                                             MappedMemory::Limits{.bytes = 2 * kFile}, all));
  AddressSpace second(nullptr, std::make_shared<MappedMemory>("the second", "",
                                                              MappedMemory::Limits{.bytes = 2 * kFile}, all));
  const auto map = [&sparse](AddressSpace& memory, std::uint64_t number) {
    return memory.map(GuestPhys(number * kFile), kFile, sparse, 0, true, true);
  };
  EXPECT_TRUE(map(first, 0));
  EXPECT_TRUE(map(first, 1));
  const Result<> refused = map(first, 2);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  EXPECT_NE(refused.error().message.find("the first (mapped_mib) allows 2048 MiB"), std::string::npos)
      << refused.error().message;
  EXPECT_EQ(first.ram_bytes(), 2 * kFile);

  EXPECT_TRUE(map(second, 0));
  const Result<> too_much_together = map(second, 1);
  ASSERT_FALSE(too_much_together);
  EXPECT_NE(too_much_together.error().message.find("all adapters together (total_mapped_mib)"),
            std::string::npos);
  first.unmap_all();
  EXPECT_EQ(first.ram_bytes(), 0U);
  EXPECT_TRUE(map(second, 1));
  second.unmap_all();
  EXPECT_EQ(all->bytes().used(), 0U);
}

// Blocks the queue's thread until it is opened.
class Gate final : public Reapable {
 public:
  explicit Gate(std::shared_future<void> opened) : opened_(std::move(opened)) {}
  ~Gate() override { opened_.wait(); }

 private:
  std::shared_future<void> opened_;
};

TEST(AddressSpaceReaper, ForgetsAtOnceWhatTheReaperUnmapsLater) {
  const auto reaper = std::move(Reaper::create().value());
  const auto queue = reaper->open_queue();
  std::promise<void> gate;
  queue->release(std::make_unique<Gate>(gate.get_future().share()));
  while (queue->waiting() == 0) {
  }
  // By now the thread has taken the gate. If not, it takes gate and mapping together and runs them in any
  // order.
  std::this_thread::sleep_for(std::chrono::milliseconds(50));

  TestRam ram(kSize);
  ram.store(0, std::uint64_t{7});
  const auto account =
      std::make_shared<MappedMemory>("the account", "", MappedMemory::Limits{.bytes = kSize});
  std::optional<AddressSpace> memory(std::in_place, queue, account);
  ram.map_into(*memory, kBase);
  const std::uint64_t generation = memory->generation();
  ASSERT_EQ(memory->unmap(GuestPhys(kBase), kSize), 0);
  EXPECT_EQ(memory->translate(GuestPhys(kBase), 8, Access::kRead), nullptr);
  EXPECT_NE(memory->generation(), generation);
  EXPECT_EQ(memory->map_count(), 0U);

  EXPECT_EQ(account->bytes().used(), kSize) << "it counts until it is gone";
  const Result<> refused = memory->map(GuestPhys(kBase), kSize, ram.fd(), 0, true, true);
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, ENOSPC);
  memory.reset();  // a mapping may outlive the adapter
  gate.set_value();
  while (queue->waiting() != 0) std::this_thread::yield();
  EXPECT_EQ(account->bytes().used(), 0U);
  EXPECT_EQ(ram.load<std::uint64_t>(0), 7U);
}

// A watcher that reads and writes guest memory on its own learns that a range ends before it is unmapped.
TEST_F(AddressSpaceTest, AWatcherIsToldOfEachRangeBeforeItGoes) {
  struct Watcher final : MemoryWatcher {
    void on_unmapping(std::span<const std::byte> memory) override {
      EXPECT_EQ(static_cast<int>(memory.front()), 7) << "it is still mapped";
      told.push_back(memory.size());
    }
    std::vector<std::size_t> told;
  } watcher;
  *ram_.at(0) = *ram_.at(4 * kPageBytes) = std::byte{7};
  memory_.tell(&watcher);
  ASSERT_EQ(map(kBase, 4 * kPageBytes), 0);
  ASSERT_EQ(map(2 * kBase, 2 * kPageBytes, 4 * kPageBytes), 0);
  ASSERT_EQ(map_hole(3 * kBase, kPageBytes), 0);
  EXPECT_NE(memory_.unmap(GuestPhys(kBase), kPageBytes), 0);
  EXPECT_TRUE(watcher.told.empty()) << "that range does not exist";
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), 4 * kPageBytes), 0);
  EXPECT_THAT(watcher.told, testing::ElementsAre(4 * kPageBytes));
  memory_.unmap_all();
  EXPECT_THAT(watcher.told, testing::ElementsAre(4 * kPageBytes, 2 * kPageBytes)) << "holes are no memory";
  memory_.tell(nullptr);
  ASSERT_EQ(map(kBase, kPageBytes), 0);
  EXPECT_EQ(memory_.unmap(GuestPhys(kBase), kPageBytes), 0);
  EXPECT_EQ(watcher.told.size(), 2U);
}

// A mapping stays while somebody holds it, and then says that it is gone.
TEST_F(AddressSpaceTest, ARangeThatIsHeldIsUnmappedAfterwards) {
  ASSERT_EQ(map(kBase, kSize), 0);
  std::shared_ptr<MappingHold> hold;
  std::span<std::byte> memory;
  memory_.for_each_ram([&](const RamRange& range) {
    hold = range.hold;
    memory = range.memory;
    EXPECT_TRUE(range.is_writable);
  });
  ASSERT_NE(hold, nullptr);
  EXPECT_EQ(memory.size(), kSize);
  std::unique_lock lock(hold->mutex);
  EXPECT_FALSE(hold->is_gone);
  auto unmapped = std::async(std::launch::async, [&] { return memory_.unmap(GuestPhys(kBase), kSize); });
  memory.front() = std::byte{1};  // the memory is still mapped, whichever thread comes first
  lock.unlock();
  EXPECT_EQ(unmapped.get(), 0);
  lock.lock();
  EXPECT_TRUE(hold->is_gone);
}

}  // namespace
}  // namespace pvrdma::guestmem
