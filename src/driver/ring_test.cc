#include "driver/ring.h"

#include <array>
#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace pvrdma::driver {
namespace {

TEST(RingIndex, powers_of_two_run_through_twice_their_size) {
  for (const std::uint32_t n : {1u, 2u, 4u, 512u}) {
    std::uint32_t index = 0;
    for (std::uint32_t step = 0; step < 2 * n; ++step) {
      EXPECT_TRUE(RingIndex::valid(index, n));
      EXPECT_EQ(RingIndex::slot(index, n), step % n);
      EXPECT_EQ(RingIndex::used(0, index, n), step);
      EXPECT_EQ(RingIndex::previous(RingIndex::next(index, n), n), index);
      index = RingIndex::next(index, n);
    }
    EXPECT_EQ(index, 0u);
    EXPECT_FALSE(RingIndex::valid(2 * n, n));
    EXPECT_FALSE(RingIndex::valid(0xffff'ffff, n));
  }
}

// The result of Linux's formulas for its event rings (docs/device.md 4.3).
TEST(RingIndex, event_rings_in_effect_use_512_and_1024_slots) {
  struct Case {
    std::uint32_t nominal;
    std::uint32_t effective;
  };
  for (const Case c : {Case{1536, 512}, Case{3072, 1024}}) {
    std::uint32_t index = 0;
    for (std::uint32_t step = 0; step < 2 * c.effective; ++step) {
      EXPECT_TRUE(RingIndex::valid(index, c.nominal));
      EXPECT_EQ(RingIndex::slot(index, c.nominal), step % c.effective);
      index = RingIndex::next(index, c.nominal);
    }
    EXPECT_EQ(index, 0u);
  }
}

class Rings : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kCount = 4;
  static constexpr std::uint32_t kStride = 8;
  std::byte* words() { return reinterpret_cast<std::byte*>(words_.data()); }

  std::array<std::uint32_t, 2> words_{};
  std::vector<std::byte> elements_{kCount * kStride};
};

TEST_F(Rings, work_ring_fills_up_and_goes_on_when_the_device_takes) {
  const WorkRing ring(RingState(words()), elements_.data(), kCount, kStride);
  std::byte* element = nullptr;
  for (std::uint32_t i = 0; i < kCount; ++i) {
    ASSERT_EQ(ring.begin(element), RingStatus::kReady);
    EXPECT_EQ(element, elements_.data() + i * kStride);
    ring.commit();
  }
  EXPECT_EQ(ring.begin(element), RingStatus::kBlocked);
  words_[1] = 1;
  ASSERT_EQ(ring.begin(element), RingStatus::kReady);
  EXPECT_EQ(element, elements_.data());
  ring.commit();
  EXPECT_EQ(ring.begin(element), RingStatus::kBlocked);
}

TEST_F(Rings, work_ring_is_broken_by_indices_out_of_range) {
  const WorkRing ring(RingState(words()), elements_.data(), kCount, kStride);
  std::byte* element = nullptr;
  words_ = {0, 8};
  EXPECT_EQ(ring.begin(element), RingStatus::kBroken);
  words_ = {0, 1};  // 7 elements in a ring of 4 entries
  EXPECT_EQ(ring.begin(element), RingStatus::kBroken);
}

TEST_F(Rings, consumer_ring_reads_in_order_and_stops_when_empty) {
  const ConsumerRing ring(RingState(words()), elements_.data(), kCount, kStride);
  const std::byte* element = nullptr;
  EXPECT_EQ(ring.front(element), RingStatus::kBlocked);
  words_[0] = 2;
  ASSERT_EQ(ring.front(element), RingStatus::kReady);
  EXPECT_EQ(element, elements_.data());
  ring.consume();
  ASSERT_EQ(ring.front(element), RingStatus::kReady);
  EXPECT_EQ(element, elements_.data() + kStride);
  ring.consume();
  EXPECT_EQ(ring.front(element), RingStatus::kBlocked);
  words_[0] = 0x80;
  EXPECT_EQ(ring.front(element), RingStatus::kBroken);
}

}  // namespace
}  // namespace pvrdma::driver
