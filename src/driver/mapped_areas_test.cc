#include "driver/mapped_areas.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "gmock/gmock.h"
#include "gtest/gtest.h"

#include "base/fd.h"

namespace pvrdma::driver {
namespace {

using testing::HasSubstr;

constexpr std::uint64_t kPage = 4096;
constexpr std::uint64_t kFdOffset = 2 * kPage;
constexpr std::uint64_t kRegionBytes = 16 * kPage;

std::span<const std::byte> bytes_of(std::string_view text) {
  return std::as_bytes(std::span(text));
}

// A region of 16 pages whose memory begins at page 2 of a file.
class MappedAreasTest : public testing::Test {
 protected:
  MappedAreasTest() : file_(::memfd_create("areas", MFD_CLOEXEC)) {
    EXPECT_EQ(::ftruncate(file_.get(), kFdOffset + kRegionBytes), 0);
  }

  static vfio_user::RegionInfo region(std::vector<vfio_user::MmapArea> areas) {
    return {.size = kRegionBytes,
            .readable = true,
            .writable = true,
            .mmap_areas = std::move(areas),
            .fd_offset = kFdOffset};
  }
  std::unique_ptr<MappedAreas> map(std::vector<vfio_user::MmapArea> areas) {
    auto made = MappedAreas::create(region(std::move(areas)), file_.get());
    EXPECT_TRUE(made) << made.error().message;
    return std::move(*made);
  }
  void refuses(const vfio_user::RegionInfo& info, const std::string& why) { refuses(info, file_.get(), why); }
  static void refuses(const vfio_user::RegionInfo& info, int fd, const std::string& why) {
    const auto made = MappedAreas::create(info, fd);
    ASSERT_FALSE(made) << why;
    EXPECT_EQ(made.error().code, EPROTO);
    EXPECT_THAT(made.error().message, HasSubstr(why));
  }
  // The bytes that the device finds at `offset` of the region.
  std::string device_sees(std::uint64_t offset, std::size_t count) {
    std::string text(count, '\0');
    EXPECT_EQ(::pread(file_.get(), text.data(), count, static_cast<off_t>(kFdOffset + offset)),
              static_cast<ssize_t>(count));
    return text;
  }

  Fd file_;
};

TEST_F(MappedAreasTest, writes_land_in_the_devices_memory_at_the_regions_offset) {
  const auto areas = map({{kPage, 2 * kPage}, {8 * kPage, kPage}});
  EXPECT_TRUE(areas->write(kPage, bytes_of("abcd")));
  EXPECT_TRUE(areas->write(3 * kPage - 4, bytes_of("last")));
  EXPECT_TRUE(areas->write(8 * kPage + 8, bytes_of("other")));
  EXPECT_EQ(device_sees(kPage, 4), "abcd");
  EXPECT_EQ(device_sees(3 * kPage - 4, 4), "last");
  EXPECT_EQ(device_sees(8 * kPage + 8, 5), "other");
}

TEST_F(MappedAreasTest, each_width_and_alignment_is_written_and_read_whole) {
  const auto areas = map({{kPage, kPage}});
  const std::string text = "0123456789abcdef";
  for (std::size_t start = 0; start < 5; ++start) {
    for (std::size_t count = 1; count <= text.size(); ++count) {
      const std::uint64_t at = kPage + 64 + start;
      ASSERT_TRUE(areas->write(kPage + 60, bytes_of(std::string(32, '-'))));
      ASSERT_TRUE(areas->write(at, bytes_of(text.substr(0, count))));
      EXPECT_EQ(device_sees(at - 1, count + 2), "-" + text.substr(0, count) + "-");
      std::string read(count, '\0');
      ASSERT_TRUE(areas->read(at, std::as_writable_bytes(std::span(read))));
      EXPECT_EQ(read, text.substr(0, count));
    }
  }
}

TEST_F(MappedAreasTest, what_is_not_wholly_in_one_area_is_left_to_messages) {
  const auto areas = map({{kPage, kPage}, {2 * kPage, kPage}});
  std::array<std::byte, 8> out{};
  for (const std::uint64_t offset : {std::uint64_t{0}, kPage - 8, kPage - 4, 2 * kPage - 4, 3 * kPage - 4,
                                     3 * kPage, kRegionBytes, ~std::uint64_t{0}}) {
    EXPECT_FALSE(areas->write(offset, bytes_of("outside!"))) << offset;
    EXPECT_FALSE(areas->read(offset, out)) << offset;
  }
  EXPECT_EQ(device_sees(0, kRegionBytes), std::string(kRegionBytes, '\0'));
}

TEST_F(MappedAreasTest, a_region_without_areas_needs_no_memory) {
  const auto areas = MappedAreas::create(region({}), -1);
  ASSERT_TRUE(areas);
  EXPECT_FALSE((*areas)->write(0, bytes_of("abcd")));
}

TEST_F(MappedAreasTest, answers_that_contradict_themselves_are_refused) {
  refuses(region({{kPage, 0}}), "an area of 0x0 bytes at 0x1000 be mapped, which is not whole pages");
  refuses(region({{kPage + 8, kPage}}), "0x1008 be mapped, which is not whole pages");
  refuses(region({{kPage, kPage + 1}}), "which is not whole pages");
  refuses(region({{15 * kPage, 2 * kPage}}), "at 0xf000 be mapped, outside its region of 0x10000 bytes");
  refuses(region({{kPage, ~std::uint64_t{0} - kPage + 1}}), "outside its region");
  refuses(region({{17 * kPage, kPage}}), "outside its region");
  refuses(
      region({{kPage, 2 * kPage}, {2 * kPage, kPage}}),
      "an area of 0x2000 bytes at 0x1000 be mapped, and an area of 0x1000 bytes at 0x2000, which overlap");
  refuses(region({{kPage, kPage}, {kPage, kPage}}), "which overlap");
  auto unaligned = region({{kPage, kPage}});
  unaligned.fd_offset += 8;
  refuses(unaligned, "the device's memory begins at 0x2008, not at a page");
  auto read_only = region({{kPage, kPage}});
  read_only.writable = false;
  refuses(read_only, "may not be read and written");
}

TEST_F(MappedAreasTest, memory_that_does_not_reach_far_enough_is_refused) {
  refuses(region({{kPage, kPage}}), -1, "sent no descriptor");
  ASSERT_EQ(::ftruncate(file_.get(), kFdOffset + 3 * kPage), 0);
  EXPECT_TRUE(MappedAreas::create(region({{2 * kPage, kPage}}), file_.get()));
  refuses(region({{3 * kPage, kPage}}), "but the memory behind it ends first");
  auto beyond = region({{kPage, kPage}});
  beyond.fd_offset = 64 * kPage;
  refuses(beyond, "but the memory behind it ends first");
  beyond.fd_offset = ~std::uint64_t{0} - kPage + 1;
  refuses(beyond, "but the memory behind it ends first");
}

}  // namespace
}  // namespace pvrdma::driver
