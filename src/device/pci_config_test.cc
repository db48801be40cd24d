#include "device/pci_config.h"

#include <array>
#include <cstring>
#include <gtest/gtest.h>

namespace pvrdma::device {
namespace {

constexpr std::uint64_t kUarBarBytes = 8u << 20;

std::uint32_t read32(const PciConfig& config, std::uint64_t offset) {
  std::uint32_t value = 0;
  EXPECT_TRUE(config.read(offset, std::as_writable_bytes(std::span(&value, 1))));
  return value;
}

void write32(PciConfig& config, std::uint64_t offset, std::uint32_t value) {
  EXPECT_TRUE(config.write(offset, std::as_bytes(std::span(&value, 1))));
}

TEST(PciConfig, TellsWhatItIs) {
  const PciConfig config(kUarBarBytes);
  EXPECT_EQ(read32(config, 0x00), 0x0820'15adu);
  EXPECT_EQ(read32(config, 0x08) >> 16, 0x0280u);
  EXPECT_EQ(read32(config, 0x04) >> 16, 0x0010u) << "status: a capability list";
  EXPECT_EQ(read32(config, 0x34), 0x40u);
  EXPECT_EQ(read32(config, 0x40), 0x0002'0011u) << "MSI-X, 3 vectors, last capability";
  EXPECT_EQ(read32(config, 0x44), 0u) << "table at 0 of BAR 0";
  EXPECT_EQ(read32(config, 0x48), 0x2000u) << "PBA in BAR 0";
}

TEST(PciConfig, BarsTellTheirSizes) {
  PciConfig config(kUarBarBytes);
  for (const std::uint64_t bar : {0x10, 0x14, 0x18, 0x1c, 0x20, 0x24, 0x30})
    write32(config, bar, 0xffff'ffff);
  EXPECT_EQ(read32(config, 0x10), 0xffff'c000u);
  EXPECT_EQ(read32(config, 0x14), 0xffff'f000u);
  EXPECT_EQ(read32(config, 0x18), 0xff80'0004u);
  EXPECT_EQ(read32(config, 0x1c), 0xffff'ffffu);
  EXPECT_EQ(read32(config, 0x20), 0u);
  EXPECT_EQ(read32(config, 0x24), 0u);
  EXPECT_EQ(read32(config, 0x30), 0u) << "the ROM BAR is hard-wired";
  config.reset();
  EXPECT_EQ(read32(config, 0x18), 4u);
  EXPECT_EQ(read32(config, 0x10), 0u);
}

TEST(PciConfig, ReadOnlyBytesStay) {
  PciConfig config(kUarBarBytes);
  std::array<std::byte, 256> before{};
  ASSERT_TRUE(config.read(0, before));
  std::array<std::byte, 256> ones{};
  ones.fill(std::byte{0xff});
  ASSERT_TRUE(config.write(0, ones));
  EXPECT_EQ(read32(config, 0x00), 0x0820'15adu);
  EXPECT_EQ(read32(config, 0x04), 0x0010'0546u);
  EXPECT_EQ(read32(config, 0x34), 0x40u);
  EXPECT_EQ(read32(config, 0x40), 0xc002'0011u);
  std::array<std::byte, 256> after{};
  config.reset();
  ASSERT_TRUE(config.read(0, after));
  EXPECT_EQ(after, before);
}

TEST(PciConfig, AnyWidthInsideAndNothingOutside) {
  PciConfig config(kUarBarBytes);
  std::array<std::byte, 300> buffer{};
  for (std::size_t width = 1; width <= 8; ++width) {
    EXPECT_TRUE(config.read(256 - width, std::span(buffer).first(width)));
    EXPECT_FALSE(config.read(257 - width, std::span(buffer).first(width)));
    EXPECT_FALSE(config.write(257 - width, std::span<const std::byte>(buffer).first(width)));
  }
  EXPECT_FALSE(config.read(0, buffer));
  EXPECT_FALSE(config.read(~0ULL, std::span(buffer).first(4)));
  EXPECT_FALSE(config.write(~0ULL, std::span<const std::byte>(buffer).first(1)));
  std::byte low{};
  EXPECT_TRUE(config.read(1, std::span(&low, 1)));
  EXPECT_EQ(low, std::byte{0x15});
}

}  // namespace
}  // namespace pvrdma::device
