#include "guestmem/ring.h"

#include <array>
#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <thread>

#include "guestmem/copy.h"
#include "guestmem/test_ram.h"

namespace pvrdma::guestmem {
namespace {

constexpr std::uint64_t kRingBase = 0x200000;
constexpr std::uint32_t kRingPages = 8;
constexpr std::size_t kTxTail = 0, kTxHead = 4, kRxTail = 8, kRxHead = 12;  // in the state page

// Page 0 of RAM is the state page; the ring's data pages are the other pages in reverse order.
class RingTest : public ::testing::Test {
 protected:
  RingTest() {
    ram_.map_into(memory_, kRingBase);
    pages_.append(GuestPhys(kRingBase));
    for (std::uint32_t i = 1; i < kRingPages; ++i)
      pages_.append(GuestPhys(kRingBase + page_of(i) * kPageBytes));
  }
  static std::uint64_t page_of(std::uint32_t index) { return kRingPages - index; }
  std::optional<GuestRing> make(RingRole role, RingWords words, std::uint32_t n, std::uint32_t stride,
                                std::uint32_t first_page = 1) {
    return GuestRing::create(
        memory_, pages_,
        {.role = role, .words = words, .first_page = first_page, .element_count = n, .stride_bytes = stride});
  }
  GuestRing consumer(std::uint32_t n, std::uint32_t stride) {
    return *make(RingRole::kConsumer, RingWords::kTx, n, stride);
  }
  GuestRing producer(std::uint32_t n, std::uint32_t stride) {
    return *make(RingRole::kProducer, RingWords::kRx, n, stride);
  }

  // The guest's view of the slot of `index`, for a ring that begins at page 1.
  std::size_t slot(std::uint32_t index, std::uint32_t n, std::uint32_t stride) const {
    const std::size_t offset = std::size_t{index & (n - 1)} * stride;
    return page_of(static_cast<std::uint32_t>(1 + offset / kPageBytes)) * kPageBytes + offset % kPageBytes;
  }
  std::uint32_t word(std::size_t offset) { return load_acquire_u32(ram_.at(offset)); }
  void set_word(std::size_t offset, std::uint32_t value) { store_release_u32(ram_.at(offset), value); }
  static RingStatus pop(GuestRing& ring, std::uint32_t& out) {
    return ring.pop(std::as_writable_bytes(std::span(&out, 1)));
  }
  static RingStatus push(GuestRing& ring, std::uint32_t value) {
    return ring.push(std::as_bytes(std::span(&value, 1)));
  }

  TestRam ram_{kRingPages * kPageBytes};
  AddressSpace memory_;
  PageList pages_;
};

TEST_F(RingTest, RefusesImpossibleShapes) {
  const auto possible = [this](std::uint32_t n, std::uint32_t stride, std::uint32_t first_page = 1) {
    return make(RingRole::kConsumer, RingWords::kTx, n, stride, first_page).has_value();
  };
  EXPECT_TRUE(possible(7, 4096) == false);
  EXPECT_FALSE(possible(0, 64));
  EXPECT_FALSE(possible(3, 64));
  EXPECT_FALSE(possible(1u << 31, 64));
  EXPECT_FALSE(possible(0xffffffff, 64));
  EXPECT_FALSE(possible(16, 0));
  EXPECT_FALSE(possible(16, 2));
  EXPECT_FALSE(possible(16, 48));
  EXPECT_FALSE(possible(1, 8192));
  EXPECT_FALSE(possible(16, 0x80000000));
  EXPECT_FALSE(possible(16, 64, 0));
  EXPECT_FALSE(possible(16, 64, 8));
  EXPECT_FALSE(possible(16, 64, 0xffffffff));
  EXPECT_TRUE(possible(16, 64, 7));
  EXPECT_TRUE(possible(4, 4096));
  EXPECT_FALSE(possible(8, 4096));
  EXPECT_TRUE(possible(4, 4096, 4));
  EXPECT_FALSE(possible(4, 4096, 5));
  EXPECT_TRUE(possible(1, 4));
  EXPECT_FALSE(GuestRing::create(memory_, PageList(), {.element_count = 1, .stride_bytes = 4}));
}

TEST_F(RingTest, ConsumesWhatTheGuestPostsAndNothingElse) {
  GuestRing ring = consumer(4, 2048);
  std::uint32_t seen = 0;
  EXPECT_EQ(pop(ring, seen), RingStatus::kEmpty);
  for (std::uint32_t i = 0; i < 3; ++i) ram_.store(slot(i, 4, 2048), 100 + i);
  set_word(kTxTail, 3);
  EXPECT_EQ(ring.used().count, 3U);
  for (std::uint32_t i = 0; i < 3; ++i) {
    ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
    EXPECT_EQ(seen, 100 + i);
    EXPECT_EQ(word(kTxHead), i + 1);
  }
  EXPECT_EQ(pop(ring, seen), RingStatus::kEmpty);
}

TEST_F(RingTest, BeginsAtTheGivenPageAndWords) {
  std::optional<GuestRing> ring = make(RingRole::kConsumer, RingWords::kRx, 2, 4096, 3);
  ASSERT_TRUE(ring);
  ram_.store(page_of(3) * kPageBytes, std::uint32_t{33});
  ram_.store(page_of(4) * kPageBytes, std::uint32_t{44});
  set_word(kRxTail, 2);
  std::uint32_t seen = 0;
  ASSERT_EQ(pop(*ring, seen), RingStatus::kOk);
  EXPECT_EQ(seen, 33U);
  ASSERT_EQ(pop(*ring, seen), RingStatus::kOk);
  EXPECT_EQ(seen, 44U);
  EXPECT_EQ(word(kRxHead), 2U);
  EXPECT_EQ(word(kTxHead), 0U);
}

// Both roles, every ring size up to 8: all valid pairs of indices, and the index values that a guest must not
// write.
TEST_F(RingTest, JudgesEveryPairOfIndices) {
  for (const std::uint32_t n : {1u, 2u, 4u, 8u}) {
    for (std::uint32_t own = 0; own < 2 * n; ++own) {
      for (std::uint32_t peer = 0; peer < 4 * n; ++peer) {
        GuestRing sq = consumer(n, 64);
        set_word(kTxHead, own);
        set_word(kTxTail, peer);
        GuestRing cq = producer(n, 64);
        set_word(kRxTail, own);
        set_word(kRxHead, peer);
        const std::uint32_t posted = (peer - own) % (2 * n);
        const std::uint32_t unread = (own - peer) % (2 * n);
        const auto expect = [&](GuestRing::Used used, std::uint32_t count) {
          const bool possible = peer < 2 * n && count <= n;
          EXPECT_EQ(used.status, possible ? RingStatus::kOk : RingStatus::kInvalidIndex);
          EXPECT_EQ(used.count, possible ? count : 0);
        };
        expect(sq.used(), posted);
        expect(cq.used(), unread);
      }
    }
  }
}

TEST_F(RingTest, RefusesInvalidIndicesWithoutTouchingTheRing) {
  GuestRing ring = consumer(4, 64);
  std::uint32_t seen = 7;
  for (const std::uint32_t tail : {5u, 7u, 8u, 0x80000000u, 0xffffffffu}) {
    set_word(kTxTail, tail);
    EXPECT_EQ(pop(ring, seen), RingStatus::kInvalidIndex) << tail;
  }
  EXPECT_EQ(seen, 7U);
  EXPECT_EQ(word(kTxHead), 0U);

  GuestRing cq = producer(4, 64);
  for (const std::uint32_t head : {1u, 3u, 8u, 0xffffffffu}) {
    set_word(kRxHead, head);
    EXPECT_EQ(push(cq, 9), RingStatus::kInvalidIndex) << head;
  }
  EXPECT_EQ(word(kRxTail), 0U);
  EXPECT_EQ(ram_.load<std::uint32_t>(slot(0, 4, 64)), 0U);
}

TEST_F(RingTest, ProducesUntilFullAndOnlyAtTheTail) {
  GuestRing ring = producer(4, 64);
  for (std::uint32_t i = 0; i < 4; ++i) {
    ASSERT_EQ(push(ring, 100 + i), RingStatus::kOk);
    EXPECT_EQ(word(kRxTail), i + 1);
  }
  EXPECT_EQ(push(ring, 999), RingStatus::kFull);
  EXPECT_EQ(word(kRxTail), 4U);
  for (std::uint32_t i = 0; i < 4; ++i) EXPECT_EQ(ram_.load<std::uint32_t>(slot(i, 4, 64)), 100 + i);
  set_word(kRxHead, 1);
  EXPECT_EQ(push(ring, 104), RingStatus::kOk);
  EXPECT_EQ(ram_.load<std::uint32_t>(slot(0, 4, 64)), 104U);
  EXPECT_EQ(ram_.load<std::uint32_t>(slot(1, 4, 64)), 101U);
  EXPECT_EQ(word(kRxTail), 5U);
}

TEST_F(RingTest, WorksWithOneElement) {
  GuestRing ring = producer(1, 4096);
  for (std::uint32_t i = 0; i < 5; ++i) {
    ASSERT_EQ(push(ring, i), RingStatus::kOk);
    ASSERT_EQ(push(ring, i), RingStatus::kFull);
    EXPECT_EQ(word(kRxTail), (i + 1) % 2);
    set_word(kRxHead, (i + 1) % 2);
  }
}

TEST_F(RingTest, NeverReadsItsOwnIndexBack) {
  GuestRing ring = consumer(4, 64);
  ram_.store(slot(0, 4, 64), std::uint32_t{10});
  ram_.store(slot(1, 4, 64), std::uint32_t{11});
  set_word(kTxTail, 2);
  std::uint32_t seen = 0;
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  set_word(kTxHead, 0);  // the guest scribbles over our word
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  EXPECT_EQ(seen, 11U);
  EXPECT_EQ(word(kTxHead), 2U);
}

TEST_F(RingTest, TakesItsIndexFromTheGuestAfterAReset) {
  GuestRing ring = consumer(4, 64);
  ram_.store(slot(0, 4, 64), std::uint32_t{10});
  ram_.store(slot(1, 4, 64), std::uint32_t{11});
  set_word(kTxTail, 2);
  std::uint32_t seen = 0;
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  ring.resync();
  set_word(kTxTail, 0);
  set_word(kTxHead, 0);
  EXPECT_EQ(pop(ring, seen), RingStatus::kEmpty);
  set_word(kTxTail, 1);
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  EXPECT_EQ(seen, 10U);
  ring.resync();
  set_word(kTxHead, 8);
  EXPECT_EQ(pop(ring, seen), RingStatus::kInvalidIndex) << "our own word is checked too";
}

TEST_F(RingTest, FailsWhenAPageIsGoneAndRecoversWhenItIsBack) {
  GuestRing ring = consumer(4, 4096);
  set_word(kTxTail, 2);
  std::uint32_t seen = 0;
  ASSERT_EQ(pop(ring, seen), RingStatus::kOk);
  ASSERT_EQ(memory_.unmap(GuestPhys(kRingBase), kRingPages * kPageBytes), 0);
  EXPECT_EQ(pop(ring, seen), RingStatus::kUnmapped);
  EXPECT_EQ(ring.used().status, RingStatus::kUnmapped);

  ASSERT_TRUE(memory_.map(GuestPhys(kRingBase), kPageBytes, ram_.fd(), 0, true, true));
  EXPECT_EQ(ring.used().count, 1U);
  EXPECT_EQ(pop(ring, seen), RingStatus::kUnmapped) << "the state page is back, the element's page is not";
  EXPECT_EQ(word(kTxHead), 1U);

  const std::uint64_t rest = (kRingPages - 1) * kPageBytes;
  ASSERT_TRUE(memory_.map(GuestPhys(kRingBase + kPageBytes), rest, ram_.fd(), kPageBytes, true, true));
  ram_.store(slot(1, 4, 4096), std::uint32_t{77});
  EXPECT_EQ(pop(ring, seen), RingStatus::kOk);
  EXPECT_EQ(seen, 77U);
}

TEST_F(RingTest, FollowsPagesToOtherMemory) {
  GuestRing ring = producer(4, 64);
  ASSERT_EQ(push(ring, 1), RingStatus::kOk);
  memory_.unmap_all();
  TestRam other(kRingPages * kPageBytes);
  other.map_into(memory_, kRingBase);
  ASSERT_EQ(push(ring, 2), RingStatus::kOk);
  EXPECT_EQ(other.load<std::uint32_t>(slot(1, 4, 64)), 2U);
  EXPECT_EQ(other.load<std::uint32_t>(kRxTail), 2U);
  EXPECT_EQ(ram_.load<std::uint32_t>(kRxTail), 1U);
}

TEST_F(RingTest, NeedsTheRightsOfItsRole) {
  memory_.unmap_all();
  ASSERT_TRUE(memory_.map(GuestPhys(kRingBase), kPageBytes, ram_.fd(), 0, true, true));
  const std::uint64_t rest = (kRingPages - 1) * kPageBytes;
  ASSERT_TRUE(memory_.map(GuestPhys(kRingBase + kPageBytes), rest, ram_.fd(), kPageBytes, true, false));
  GuestRing sq = consumer(4, 64);
  GuestRing cq = producer(4, 64);
  set_word(kTxTail, 1);
  std::uint32_t seen = 0;
  EXPECT_EQ(pop(sq, seen), RingStatus::kOk);
  EXPECT_EQ(push(cq, 1), RingStatus::kUnmapped);
}

// The asynchronous and notification rings of section 4.3, compared with the driver's own arithmetic on a
// nominal number of entries that is not a power of two.
TEST_F(RingTest, AgreesWithTheDriversArithmeticOnTheEventRings) {
  struct Quirk {
    std::uint32_t nominal, effective, stride;
  };
  for (const Quirk quirk : {Quirk{1536, 512, 8}, Quirk{3072, 1024, 4}}) {
    GuestRing ring = producer(quirk.effective, quirk.stride);
    set_word(kRxTail, 0);
    set_word(kRxHead, 0);
    std::uint32_t sent = 0;
    std::uint32_t received = 0;
    std::minstd_rand random(quirk.nominal);
    while (received < 10000) {
      for (std::uint64_t burst = random() % 1500; burst > 0 && push(ring, sent) == RingStatus::kOk; --burst)
        ++sent;
      ASSERT_LE(sent - received, quirk.effective);
      const std::uint32_t tail = word(kRxTail);
      std::uint32_t head = word(kRxHead);
      ASSERT_EQ(tail & ~(2 * quirk.nominal - 1), 0U);
      for (std::uint64_t burst = random() % 1500; burst > 0 && head != tail; --burst) {
        const std::size_t offset = std::size_t{head & (quirk.nominal - 1)} * quirk.stride;
        ASSERT_EQ(ram_.load<std::uint32_t>(page_of(1) * kPageBytes + offset), received);
        ++received;
        head = (head + 1) & (2 * quirk.nominal - 1);
      }
      set_word(kRxHead, head);
    }
  }
}

// A guest thread posts, the device consumes and produces what it consumed; the guest checks order and
// contents.
TEST_F(RingTest, CarriesElementsBetweenThreadsInOrder) {
  constexpr std::uint32_t kCount = 20000;
  constexpr std::uint32_t n = 16;
  GuestRing sq = consumer(n, 256);
  std::optional<GuestRing> cq = make(RingRole::kProducer, RingWords::kRx, n, 64, 3);
  ASSERT_TRUE(cq);
  std::thread guest([&] {
    std::uint32_t posted = 0;
    std::uint32_t completed = 0;
    while (completed < kCount) {
      const std::uint32_t mask = 2 * n - 1;
      if (posted < kCount && ((posted - word(kTxHead)) & mask) < n) {
        ram_.store(slot(posted, n, 256), posted);
        ++posted;
        set_word(kTxTail, posted & mask);
      }
      if (word(kRxTail) != (completed & mask)) {
        EXPECT_EQ(ram_.load<std::uint32_t>(page_of(3) * kPageBytes + std::size_t{completed & (n - 1)} * 64),
                  completed);
        ++completed;
        set_word(kRxHead, completed & mask);
      } else {
        std::this_thread::yield();
      }
    }
  });
  for (std::uint32_t done = 0; done < kCount;) {
    std::uint32_t value = 0;
    const RingStatus status = pop(sq, value);
    if (status == RingStatus::kEmpty) {
      std::this_thread::yield();
      continue;
    }
    ASSERT_EQ(status, RingStatus::kOk);
    ASSERT_EQ(value, done);
    while (push(*cq, value) == RingStatus::kFull) std::this_thread::yield();
    ++done;
  }
  guest.join();
}

TEST_F(RingTest, TellsItsShape) {
  const GuestRing ring = consumer(16, 256);
  EXPECT_EQ(ring.element_count(), 16U);
  EXPECT_EQ(ring.stride_bytes(), 256U);
}

using RingDeathTest = RingTest;

TEST_F(RingDeathTest, AbortsOnTheWrongRole) {
  GuestRing sq = consumer(4, 64);
  GuestRing cq = producer(4, 64);
  std::uint32_t value = 0;
  EXPECT_DEATH(static_cast<void>(push(sq, 1)), "producer");
  EXPECT_DEATH(static_cast<void>(pop(cq, value)), "consumer");
}

TEST_F(RingDeathTest, AbortsOnMoreBytesThanTheStride) {
  GuestRing ring = consumer(4, 64);
  std::array<std::byte, 65> buffer{};
  EXPECT_DEATH(static_cast<void>(ring.pop(buffer)), "stride");
}

}  // namespace
}  // namespace pvrdma::guestmem
