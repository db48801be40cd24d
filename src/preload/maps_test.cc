#include <cstdint>
#include <gtest/gtest.h>
#include <string>
#include <sys/mman.h>
#include <sys/sysmacros.h>

extern "C" {
#include "preload/maps.h"
}

// Lines of /proc/self/maps, and the process's own mappings.
namespace {

TEST(Maps, ParsesALine) {
  mapping parsed{};
  ASSERT_TRUE(parse_mapping(
      "7f0a10000000-7f0a10002000 rw-s 00003000 00:01 4711       /memfd:pvrdma (deleted)", &parsed));
  EXPECT_EQ(parsed.start, 0x7f0a10000000U);
  EXPECT_EQ(parsed.end, 0x7f0a10002000U);
  EXPECT_EQ(parsed.protection, PROT_READ | PROT_WRITE);
  EXPECT_TRUE(parsed.shared);
  EXPECT_FALSE(parsed.special);
  EXPECT_EQ(parsed.offset, 0x3000U);
  EXPECT_EQ(parsed.device, ::makedev(0, 1));
  EXPECT_EQ(parsed.inode, 4711U);
  EXPECT_EQ(std::string(parsed.name), "/memfd:pvrdma (deleted)");
}

TEST(Maps, ParsesAnonymousAndSpecialMappings) {
  mapping parsed{};
  ASSERT_TRUE(parse_mapping("55d0c0000000-55d0c0021000 ---p 00000000 00:00 0 ", &parsed));
  EXPECT_EQ(parsed.protection, PROT_NONE);
  EXPECT_FALSE(parsed.shared);
  EXPECT_EQ(parsed.inode, 0U);
  ASSERT_TRUE(parse_mapping("7ffc5f1f2000-7ffc5f1f4000 r-xp 00000000 00:00 0                          [vdso]",
                            &parsed));
  EXPECT_TRUE(parsed.special);
  ASSERT_TRUE(parse_mapping(
      "7ffc5f1c2000-7ffc5f1e4000 rw-p 00000000 00:00 0                          [stack]", &parsed));
  EXPECT_FALSE(parsed.special);
}

TEST(Maps, RefusesWhatIsNoLine) {
  mapping parsed{};
  for (const char* line :
       {"", "-", "1000", "1000-2000", "1000-2000 ", "1000-2000 rw-p", "1000-2000 rw-p 0",
        "1000-2000 rw-p 0 00:01", "1000-2000 rw-p 0 00:01 x ", "g000-2000 rw-p 0 00:01 1 "}) {
    EXPECT_FALSE(parse_mapping(line, &parsed)) << line;
  }
}

TEST(Maps, CutsLongNames) {
  mapping parsed{};
  ASSERT_TRUE(parse_mapping(("1000-2000 rw-p 0 00:01 1 /" + std::string(500, 'x')).c_str(), &parsed));
  EXPECT_EQ(std::string(parsed.name).size(), sizeof parsed.name - 1);
}

TEST(Maps, VisitsWhatOverlapsTheRange) {
  constexpr std::size_t kPage = 4096;
  char* const at = static_cast<char*>(
      ::mmap(nullptr, 3 * kPage, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
  ASSERT_NE(at, MAP_FAILED);
  ASSERT_EQ(::mprotect(at + kPage, kPage, PROT_READ), 0);
  const auto start = reinterpret_cast<std::uintptr_t>(at);
  std::string protections;
  const auto note = [](const mapping* each, void* context) {
    static_cast<std::string*>(context)->append(each->protection == PROT_READ ? "r" : "w");
    return true;
  };
  EXPECT_EQ(visit_mappings(start, start + 2 * kPage + 1, note, &protections), 0);
  EXPECT_EQ(protections, "wrw");
  const auto once = [](const mapping*, void* context) {
    static_cast<std::string*>(context)->append("!");
    return false;
  };
  EXPECT_EQ(visit_mappings(start, start + 3 * kPage, once, &protections), 0);
  EXPECT_EQ(protections, "wrw!");
  ::munmap(at, 3 * kPage);
}

}  // namespace
