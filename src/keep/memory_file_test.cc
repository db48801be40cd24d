#include "keep/memory_file.h"

#include <cerrno>
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>

namespace pvrdma::keep {
namespace {

TEST(MemoryFileTest, GivesBackItsBytes) {
  for (const std::size_t size : {0, 1, 4096, 3 << 20}) {
    std::vector<std::byte> bytes(size);
    for (std::size_t i = 0; i < size; ++i) bytes[i] = static_cast<std::byte>(i * 7);
    const auto file = to_memory_file(bytes);
    ASSERT_TRUE(file);
    const auto read = from_memory_file(*file, size);
    ASSERT_TRUE(read);
    EXPECT_EQ(*read, bytes);
    EXPECT_LT(::write(file->get(), "x", 1), 0) << "nobody can change it";
  }
}

TEST(MemoryFileTest, RefusesWhatIsNone) {
  const auto file = to_memory_file(std::vector<std::byte>(100));
  ASSERT_TRUE(file);
  EXPECT_EQ(from_memory_file(*file, 99).error().code, E2BIG);
  EXPECT_EQ(from_memory_file(Fd(::open("/dev/null", O_RDWR)), 99).error().code, EINVAL);
  const Fd changing(::memfd_create("changing", MFD_ALLOW_SEALING));
  EXPECT_EQ(from_memory_file(changing, 99).error().code, EINVAL);
}

}  // namespace
}  // namespace pvrdma::keep
