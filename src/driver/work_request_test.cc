#include "driver/work_request.h"

#include <array>
#include <cstring>

#include "gtest/gtest.h"

#include "driver/posting.h"

namespace pvrdma::driver {
namespace {

// A ring of two send elements with room for three SGEs each.
class SendRing : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kStride = 128;
  template <typename T>
  T at(std::size_t offset) const {
    T value;
    std::memcpy(&value, elements_.data() + offset, sizeof(T));
    return value;
  }

  alignas(8) std::array<std::byte, 2 * kStride> elements_{};
  std::array<std::uint32_t, 2> words_{};
  WorkRing ring_{RingState(reinterpret_cast<std::byte*>(words_.data())), elements_.data(), 2, kStride};
};

TEST_F(SendRing, header_and_sges_stand_where_the_reference_says) {
  const std::array sges{Sge{0x1000, 16, 7}, Sge{0x2000, 32, 8}};
  ASSERT_EQ(put(ring_, 3, wr::write_imm(0x1122, sges, {0xabcd, 0x55}, 0x01020304)), PostStatus::kOk);
  EXPECT_EQ(at<std::uint64_t>(0), 0x1122u);
  EXPECT_EQ(at<std::uint32_t>(8), 2u);
  EXPECT_EQ(at<std::uint32_t>(16), 1u);
  EXPECT_EQ(at<std::uint32_t>(20), 2u);
  EXPECT_EQ(at<std::uint32_t>(24), 0x04030201u);
  EXPECT_EQ(at<std::uint64_t>(32), 0xabcdu);
  EXPECT_EQ(at<std::uint32_t>(40), 0x55u);
  EXPECT_EQ(at<std::uint64_t>(80), 0x1000u);
  EXPECT_EQ(at<std::uint64_t>(96), 0x2000u);
  EXPECT_EQ(at<std::uint32_t>(104), 32u);
  EXPECT_EQ(at<std::uint32_t>(108), 8u);
}

TEST_F(SendRing, atomics_and_datagrams) {
  const std::array sges{Sge{0x1000, 8, 7}};
  ASSERT_EQ(put(ring_, 3, wr::compare_swap(1, sges, {0xf00, 9}, 5, 6)), PostStatus::kOk);
  EXPECT_EQ(at<std::uint32_t>(16), 5u);
  EXPECT_EQ(at<std::uint64_t>(40), 5u);
  EXPECT_EQ(at<std::uint64_t>(48), 6u);
  EXPECT_EQ(at<std::uint32_t>(56), 9u);
  Destination to{.qpn = 77, .qkey = 0x1234};
  to.av.hop_limit = 64;
  to.av.gid_index = 1;
  ASSERT_EQ(put(ring_, 3, wr::send_imm_to(2, sges, to, 1)), PostStatus::kOk);
  EXPECT_EQ(at<std::uint32_t>(kStride + 16), 3u);
  EXPECT_EQ(at<std::uint32_t>(kStride + 32), 77u);
  EXPECT_EQ(at<std::uint32_t>(kStride + 36), 0x1234u);
  EXPECT_EQ(at<std::uint8_t>(kStride + 40 + 25), 1);
  EXPECT_EQ(at<std::uint8_t>(kStride + 40 + 27), 64);
}

TEST_F(SendRing, a_list_stops_at_the_first_request_that_does_not_fit) {
  const std::array<Sge, 4> four{};
  const std::array requests{wr::send(1, {}), wr::send(2, four), wr::send(3, {})};
  const Posted posted = put_all(ring_, 3, std::span<const SendRequest>(requests));
  EXPECT_EQ(posted.status, PostStatus::kTooManySges);
  EXPECT_EQ(posted.count, 1u);
  EXPECT_EQ(words_[0], 1u);
  EXPECT_EQ(put(ring_, 3, wr::send(4, {})), PostStatus::kOk);
  EXPECT_EQ(put(ring_, 3, wr::send(5, {})), PostStatus::kFull);
}

}  // namespace
}  // namespace pvrdma::driver
