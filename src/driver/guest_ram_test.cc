#include "driver/guest_ram.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <set>

#include "gtest/gtest.h"

namespace pvrdma::driver {
namespace {

constexpr std::size_t kPage = 4096;

std::unique_ptr<GuestRam> make_ram(std::size_t pages) {
  return std::move(GuestRam::create({.size_bytes = pages * kPage, .base = GuestPhys(1ULL << 32)}).value());
}

TEST(GuestRam, scattered_buffers_are_one_piece_for_the_cpu_and_many_for_the_device) {
  auto ram = make_ram(256);
  auto buffer = std::move(ram->allocate(20 * kPage + 5).value());
  ASSERT_EQ(buffer->pages().size(), 21u);
  EXPECT_EQ(buffer->size_bytes(), 20 * kPage + 5);
  std::size_t adjacent = 0;
  for (std::size_t i = 1; i < buffer->pages().size(); ++i) {
    if (buffer->pages()[i].value == buffer->pages()[i - 1].value + kPage) ++adjacent;
  }
  EXPECT_LT(adjacent, 3u);
  for (std::size_t i = 0; i < buffer->size_bytes(); i += 999) {
    buffer->data()[i] = static_cast<std::byte>(i);
    EXPECT_EQ(*ram->at(buffer->gpa(i), 1), static_cast<std::byte>(i));
  }
}

TEST(GuestRam, contiguous_buffers_are_contiguous_for_both) {
  auto ram = make_ram(64);
  auto buffer = std::move(ram->allocate(10 * kPage, Placement::kContiguous).value());
  for (std::size_t i = 0; i < 10; ++i) EXPECT_EQ(buffer->pages()[i].value, buffer->gpa().value + i * kPage);
  EXPECT_EQ(ram->at(buffer->gpa(), 10 * kPage), buffer->data());
}

TEST(GuestRam, gives_every_page_once_and_takes_all_back) {
  auto ram = make_ram(64);
  {
    std::set<GuestPhys> seen;
    std::vector<std::unique_ptr<Buffer>> buffers;
    for (int i = 0; i < 16; ++i) {
      buffers.push_back(std::move(
          ram->allocate(4 * kPage, i % 2 == 0 ? Placement::kScattered : Placement::kContiguous).value()));
      for (const GuestPhys page : buffers.back()->pages()) EXPECT_TRUE(seen.insert(page).second);
    }
    EXPECT_EQ(ram->free_pages(), 0u);
    const auto more = ram->allocate(1);
    ASSERT_FALSE(more);
    EXPECT_EQ(more.error().code, ENOMEM);
  }
  EXPECT_EQ(ram->free_pages(), 64u);
}

TEST(GuestRam, buffers_start_zeroed_also_when_their_pages_were_used_before) {
  auto ram = make_ram(2);
  for (int round = 0; round < 3; ++round) {
    auto buffer = std::move(ram->allocate(2 * kPage).value());
    EXPECT_TRUE(std::ranges::all_of(buffer->bytes(), [](std::byte b) { return b == std::byte{0}; }));
    std::memset(buffer->data(), 0xee, buffer->size_bytes());
  }
}

TEST(GuestRam, is_sealed_against_shrinking_unless_told_otherwise) {
  auto ram = make_ram(2);
  EXPECT_NE(::ftruncate(ram->fd(), 0), 0);
  auto open = std::move(GuestRam::create({.size_bytes = 2 * kPage, .seal = GuestRam::Seal::kNone}).value());
  EXPECT_EQ(::ftruncate(open->fd(), kPage), 0);
}

TEST(GuestRam, refuses_sizes_that_are_no_pages) {
  EXPECT_FALSE(GuestRam::create({.size_bytes = 0}));
  EXPECT_FALSE(GuestRam::create({.size_bytes = 5000}));
}

}  // namespace
}  // namespace pvrdma::driver
