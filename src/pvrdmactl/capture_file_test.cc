// The file of a capture: it has whole blocks however the pieces are cut. Its counts, and what it refuses.
#include "pvrdmactl/capture_file.h"

#include <cstring>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>

namespace pvrdma::ctl {
namespace {

std::string bytes_of(std::uint64_t value, std::size_t size) {
  return {reinterpret_cast<const char*>(&value), size};
}

std::string block(std::uint32_t type, const std::string& body) {
  const std::string length = bytes_of(body.size() + 12, 4);
  return bytes_of(type, 4) + length + body + length;
}

std::string frame() {
  return block(6, std::string(40, 'f'));
}

std::string statistics(std::uint32_t interface_id, std::uint64_t dropped) {
  return block(5, bytes_of(interface_id, 4) + std::string(8, 't') + bytes_of(4, 2) + bytes_of(8, 2) +
                      bytes_of(77, 8) + bytes_of(5, 2) + bytes_of(8, 2) + bytes_of(dropped, 8) +
                      bytes_of(0, 4));
}

class CaptureFileTest : public testing::Test {
 protected:
  ~CaptureFileTest() override { std::filesystem::remove(path); }
  std::string written() const {
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string path =
      testing::TempDir() + testing::UnitTest::GetInstance()->current_test_info()->name() + ".pcapng";
};

TEST_F(CaptureFileTest, HasWholeBlocksWhateverThePieces) {
  const std::string all = block(0x0a0d0d0a, std::string(16, 's')) + frame() + statistics(0, 3) + frame();
  for (const std::size_t piece : {std::size_t{1}, std::size_t{7}, all.size()}) {
    CaptureFile file(path);
    for (std::size_t at = 0; at < all.size(); at += piece) {
      ASSERT_TRUE(file.take(std::string_view(all).substr(at, piece)));
    }
    ASSERT_TRUE(file.take(frame().substr(0, 30)));  // cut off
    EXPECT_EQ(written(), all);
    EXPECT_EQ(file.frames(), 2);
    EXPECT_EQ(file.lost_frames(), 3);
  }
}

TEST_F(CaptureFileTest, TellsTheLastCountOfWhatWasLost) {
  CaptureFile file(path);
  ASSERT_TRUE(file.take(statistics(0, 3) + statistics(1, 9) + statistics(0, 5)));
  EXPECT_EQ(file.lost_frames(), 5);
}

TEST_F(CaptureFileTest, IsForItsOwnerOnly) {
  CaptureFile file(path);
  ASSERT_TRUE(file.take(frame()));
  EXPECT_EQ(std::filesystem::status(path).permissions() & std::filesystem::perms(077),
            std::filesystem::perms::none);
}

TEST_F(CaptureFileTest, RefusesWhatIsNoFileOfBlocks) {
  CaptureFile file(path);
  EXPECT_FALSE(file.take("{\"name\": \"VM-01\"}"));
  EXPECT_FALSE(std::filesystem::exists(path));
}

TEST_F(CaptureFileTest, NamesTheFileThatCannotBeMade) {
  CaptureFile file("/no/such/folder/x.pcapng");
  const auto taken = file.take(frame());
  ASSERT_FALSE(taken);
  EXPECT_NE(taken.error().message.find("/no/such/folder/x.pcapng"), std::string::npos);
}

}  // namespace
}  // namespace pvrdma::ctl
