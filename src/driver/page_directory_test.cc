#include "driver/page_directory.h"

#include <cstring>
#include <vector>

#include "gtest/gtest.h"

namespace pvrdma::driver {
namespace {

std::uint64_t word(const GuestRam& ram, GuestPhys gpa) {
  std::uint64_t value = 0;
  std::memcpy(&value, ram.at(gpa, sizeof(value)), sizeof(value));
  return value;
}

// Looks a page up in the directory as docs/device.md 4.1 describes.
GuestPhys lookup(const GuestRam& ram, GuestPhys directory, std::size_t page) {
  const std::uint64_t table = word(ram, GuestPhys(directory.value + 8 * ((page >> 9) & 511)));
  return GuestPhys(word(ram, GuestPhys(table + 8 * (page & 511))));
}

TEST(PageDirectory, lists_pages_across_tables) {
  auto ram = std::move(GuestRam::create({.size_bytes = 16ULL << 20}).value());
  std::vector<GuestPhys> pages;
  for (std::uint64_t i = 0; i < 1100; ++i) pages.push_back(GuestPhys((i * 7 + 1) << 12));
  auto directory = std::move(PageDirectory::of(*ram, pages).value());
  for (std::size_t i = 0; i < pages.size(); ++i) EXPECT_EQ(lookup(*ram, directory->gpa(), i), pages[i]);
  EXPECT_EQ(lookup(*ram, directory->gpa(), 1101), GuestPhys(0));
}

TEST(PageDirectory, refuses_sizes_it_cannot_hold) {
  auto ram = std::move(GuestRam::create({.size_bytes = 1ULL << 20}).value());
  EXPECT_FALSE(PageDirectory::create(*ram, 0));
  EXPECT_FALSE(PageDirectory::create(*ram, PageDirectory::kPagesMax + 1));
}

}  // namespace
}  // namespace pvrdma::driver
