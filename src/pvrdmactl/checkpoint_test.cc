// A checkpoint's file and stream: how pieces are cut does not matter. What they refuse.
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <iterator>
#include <unistd.h>
#include <vector>

#include "pvrdmactl/checkpoint_file.h"
#include "pvrdmactl/checkpoint_stream.h"

namespace pvrdma::ctl {
namespace {

constexpr Duration kPatience = std::chrono::hours(1);

class CheckpointFileTest : public testing::Test {
 protected:
  ~CheckpointFileTest() override { std::filesystem::remove(path_); }
  void write(const std::string& bytes) const { std::ofstream(path_, std::ios::binary) << bytes; }
  std::string written() const {
    std::ifstream file(path_, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  const std::string path_ = testing::TempDir() + "checkpoint_" + std::to_string(::getpid());
};

TEST_F(CheckpointFileTest, HasTheStateBehindWhatQemuWrote) {
  write("memory");
  const std::string state(300, 's');
  ASSERT_TRUE(append_state(path_, state, kPatience));
  EXPECT_TRUE(written().starts_with("memory" + state));
  EXPECT_EQ(read_state(path_).value(), state);
}

TEST_F(CheckpointFileTest, IsNoneWithoutTheState) {
  write("memory");
  ASSERT_TRUE(append_state(path_, "state", kPatience));
  ASSERT_TRUE(drop_state(path_));
  EXPECT_EQ(written(), "memory");
  EXPECT_EQ(drop_state(path_).error().code, EINVAL);
}

TEST_F(CheckpointFileTest, IsNotMade) {
  EXPECT_EQ(append_state(path_, "state", kPatience).error().code, ENOENT);
  EXPECT_FALSE(std::filesystem::exists(path_));
}

// The daemon lets the VM go on then.
TEST_F(CheckpointFileTest, IsNoneWhenItTookTooLong) {
  write("memory");
  const auto appended = append_state(path_, "state", Duration{});
  EXPECT_EQ(appended.error().code, ETIMEDOUT);
  EXPECT_EQ(appended.error().message, "to store and read " + path_ +
                                          " took longer than the 0 s that the daemon waits: "
                                          "write the checkpoint to faster storage");
  EXPECT_EQ(read_state(path_).error().code, EINVAL);
}

TEST_F(CheckpointFileTest, IsRefusedWhenCutOrAnother) {
  write("memory");
  ASSERT_TRUE(append_state(path_, "state", kPatience));
  const std::string whole = written();
  ASSERT_TRUE(read_state(path_));
  for (std::size_t size = 0; size < whole.size(); ++size) {
    write(whole.substr(0, size));
    EXPECT_EQ(read_state(path_).error().code, EINVAL) << size;
  }
  EXPECT_EQ(read_state("/dev/null").error().code, EINVAL);
  EXPECT_EQ(read_state(path_ + ".none").error().code, ENOENT);
}

// Most of the lengths that differ in one bit are possible, too.
TEST_F(CheckpointFileTest, IsRefusedWithAnyBitFlipped) {
  write(std::string(60, 'm'));
  ASSERT_TRUE(append_state(path_, std::string(40, 's'), kPatience));
  const std::string whole = written();
  EXPECT_TRUE(verify(path_));
  for (std::size_t bit = 0; bit < 8 * whole.size(); ++bit) {
    std::string other = whole;
    other[bit / 8] = static_cast<char>(other[bit / 8] ^ 1 << bit % 8);
    write(other);
    EXPECT_FALSE(verify(path_)) << "byte " << bit / 8 << ", bit " << bit % 8;
  }
  write("M" + whole.substr(1));
  EXPECT_EQ(verify(path_).error().message, path_ +
                                               " is damaged: its checksum is not that of what it has: "
                                               "restore from an undamaged copy");
}

TEST_F(CheckpointFileTest, IsRefusedFromAVersionWithoutAChecksum) {
  const std::string state(100, 's');
  write("memory" + state + std::string("\x64\0\0\0\0\0\0\0", 8) + "PVRDMA checkpoint 1\n");
  const std::string sentence =
      path_ +
      " was written by an earlier version of pvrdmactl, without a checksum: restore it with that version";
  EXPECT_EQ(verify(path_).error().message, sentence);
  EXPECT_EQ(read_state(path_).error().message, sentence);
}

// A guest's unused memory is a hole; a copy may have zeros there, or holes elsewhere.
TEST_F(CheckpointFileTest, ACopyMayHaveOtherHoles) {
  constexpr std::size_t kMiB = 1u << 20;
  write("memory");
  std::filesystem::resize_file(path_, 3 * kMiB + 5);
  std::ofstream(path_, std::ios::binary | std::ios::app) << "devices";
  ASSERT_TRUE(append_state(path_, "state", kPatience));
  const std::string whole = written();
  std::filesystem::remove(path_);
  write(whole);
  EXPECT_TRUE(verify(path_));
  for (const std::size_t at : {2 * kMiB, 3 * kMiB + 4}) {
    std::string other = whole;
    other[at] = 1;
    write(other);
    EXPECT_FALSE(verify(path_)) << at;
  }
}

std::string line(std::uint64_t state_bytes, const std::string& error = "") {
  return Json{{"vm", "VM-01"}, {"state_bytes", state_bytes}, {"patience_s", 600}, {"error", error}}.dump() +
         "\n";
}

class Taken {
 public:
  Result<void> take(const std::string& bytes, std::size_t piece) {
    for (std::size_t at = 0; at < bytes.size(); at += piece) {
      if (auto done = stream_.take(std::string_view(bytes).substr(at, piece)); !done) return done;
    }
    return {};
  }
  int lines = 0;
  std::vector<std::string> kept;
  bool full = false;  // simulates a full disk

 private:
  CheckpointStream stream_{{.progress = [this](const Json&) { ++lines; },
                            .keep = [this](const Json& last, std::string_view state) -> Result<void> {
                              if (full) return fail(ENOSPC, "the disk is full");
                              EXPECT_EQ(last.at("state_bytes"), state.size());
                              kept.emplace_back(state);
                              return {};
                            }}};
};

TEST(CheckpointStreamTest, TakesPiecesCutAnywhere) {
  const std::string all = line(0) + line(0) + line(5) + "{\n\"x}";
  for (std::size_t piece = 1; piece <= all.size(); ++piece) {
    Taken taken;
    ASSERT_TRUE(taken.take(all, piece)) << piece;
    EXPECT_EQ(taken.lines, 2);
    EXPECT_EQ(taken.kept, std::vector<std::string>{"{\n\"x}"});
  }
}

TEST(CheckpointStreamTest, SaysWhatTheDaemonSays) {
  Taken taken;
  const auto done = taken.take(line(0) + line(0, "no space left; the VM goes on"), 7);
  ASSERT_FALSE(done);
  EXPECT_EQ(done.error().code, ECANCELED);
  EXPECT_EQ(done.error().message, "no space left; the VM goes on");
  EXPECT_TRUE(taken.kept.empty());
}

TEST(CheckpointStreamTest, IsOverWhenTheStateCannotBeKept) {
  Taken taken;
  taken.full = true;
  EXPECT_EQ(taken.take(line(3) + "abc", 100).error().message, "the disk is full");
}

TEST(CheckpointStreamTest, RefusesWhatItDoesNotExpect) {
  for (const std::string& bad :
       {std::string("no json\n"), std::string("[]\n"), std::string("{\"error\": \"\"}\n"),
        std::string("{\"error\": 1, \"state_bytes\": 1}\n"), line(1ull << 40),
        std::string("{\"error\": \"\", \"state_bytes\": 1, \"patience_s\": -1}\na"), std::string(70'000, 'x'),
        line(1) + "a" + line(1)}) {
    EXPECT_FALSE(Taken().take(bad, 1000)) << bad.substr(0, 80);
  }
}

}  // namespace
}  // namespace pvrdma::ctl
