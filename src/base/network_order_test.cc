#include "base/network_order.h"

#include <array>
#include <gtest/gtest.h>
#include <string_view>

namespace pvrdma {
namespace {

template <std::size_t N>
std::array<std::byte, N> bytes(const std::array<unsigned, N>& values) {
  std::array<std::byte, N> out{};
  for (std::size_t i = 0; i < N; ++i) out[i] = static_cast<std::byte>(values[i]);
  return out;
}

const auto kFields = bytes<25>({0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08, 0x09, 0x0a, 0x0b, 0x0c, 0x0d,
                                0x0e, 0x0f, 0x10, 0x11, 0x12, 'a',  'b',  'c',  0x00, 0x00, 0x00, 0x13});

TEST(NetworkOrder, WritesTheMostSignificantByteFirst) {
  std::array<std::byte, kFields.size() + 1> room;
  room.fill(std::byte{0xee});
  NetworkWriter writer(room);
  writer.put(std::uint8_t{0x01});
  writer.put(std::uint16_t{0x0203});
  writer.put24(0xff04'0506);
  writer.put(std::uint32_t{0x0708'090a});
  writer.put(std::uint64_t{0x0b0c'0d0e'0f10'1112});
  writer.put_bytes("abc", 3);
  writer.zeros(3);
  writer.put_bytes(nullptr, 0);
  writer.put(std::uint8_t{0x13});
  EXPECT_TRUE(std::equal(kFields.begin(), kFields.end(), room.begin()));
  ASSERT_EQ(writer.rest().size(), 1u);
  EXPECT_EQ(writer.rest().front(), std::byte{0xee}) << "nothing was written behind the fields";
}

TEST(NetworkOrder, ReadsWhatItWrote) {
  NetworkReader reader(kFields);
  EXPECT_EQ(reader.take<std::uint8_t>(), 0x01u);
  EXPECT_EQ(reader.take<std::uint16_t>(), 0x0203u);
  EXPECT_EQ(reader.take24(), 0x04'0506u);
  EXPECT_EQ(reader.take<std::uint32_t>(), 0x0708'090au);
  EXPECT_EQ(reader.take<std::uint64_t>(), 0x0b0c'0d0e'0f10'1112u);
  char first = 0;
  reader.take_bytes(&first, 1);
  EXPECT_EQ(first, 'a');
  const auto view = reader.take_view(2);
  EXPECT_EQ(view.data(), kFields.data() + 19) << "no copy";
  EXPECT_EQ(std::string_view(reinterpret_cast<const char*>(view.data()), view.size()), "bc");
  reader.skip(3);
  reader.take_bytes(nullptr, 0);
  ASSERT_EQ(reader.rest().size(), 1u);
  EXPECT_EQ(reader.take<std::uint8_t>(), 0x13u);
  EXPECT_TRUE(reader.rest().empty());
}

TEST(NetworkOrderDeathTest, RoomThatIsMissingIsOurBug) {
  std::array<std::byte, 3> three{};
  EXPECT_DEATH(NetworkWriter(three).put(std::uint32_t{1}), "room for what is written");
  EXPECT_DEATH(NetworkWriter(three).zeros(4), "room for what is written");
  EXPECT_DEATH(NetworkReader(three).take<std::uint32_t>(), "what is read is there");
  EXPECT_DEATH(NetworkReader(three).skip(4), "what is read is there");
}

}  // namespace
}  // namespace pvrdma
