#include "device/migration_stream.h"

#include <gtest/gtest.h>
#include <new>
#include <vector>

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kRecords = 5;
constexpr state::RecordKind kKind{7, 1};

void write_record(state::Writer& writer, std::uint64_t value) {
  writer.begin(kKind);
  writer.number("value", value);
  writer.end();
}

std::vector<std::byte> whole() {
  state::Writer writer;
  for (std::uint32_t i = 0; i < kRecords; ++i) write_record(writer, i);
  return writer.finish();
}

class MigrationStreamTest : public testing::Test {
 protected:
  // The first record is there from the begin.
  void offer() {
    ASSERT_TRUE(stream_.begin());
    state::Writer writer;
    write_record(writer, 0);
    stream_.offer(std::move(writer), [this](state::Writer& into) {
      if (written_ == kRecords) return false;
      write_record(into, written_++);
      return true;
    });
  }
  std::vector<std::byte> read(std::size_t bytes) {
    std::vector<std::byte> out(bytes);
    out.resize(stream_.read(out));
    return out;
  }

  MigrationStream stream_{nullptr, nullptr};
  std::uint64_t written_ = 1;
};

TEST_F(MigrationStreamTest, WritesARecordWhenItIsRead) {
  offer();
  EXPECT_EQ(written_, 1U);
  std::vector<std::byte> all = read(1);
  EXPECT_EQ(written_, 1U);
  std::uint64_t before = written_;
  while (true) {
    const std::vector<std::byte> piece = read(3);
    all.insert(all.end(), piece.begin(), piece.end());
    EXPECT_LE(written_ - before, 1U) << "no more than what was asked for";
    EXPECT_GE(stream_.saved_bytes(), all.size());
    before = written_;
    if (piece.size() < 3) break;
  }
  EXPECT_EQ(all, whole());
  EXPECT_EQ(stream_.saved_bytes(), all.size());
  EXPECT_TRUE(read(3).empty());
}

TEST_F(MigrationStreamTest, OneReadMayTakeAll) {
  offer();
  EXPECT_EQ(read(100'000), whole());
}

TEST_F(MigrationStreamTest, BeginsAnew) {
  offer();
  const std::uint64_t offered = stream_.saved_bytes();
  EXPECT_EQ(read(offered + 1).size(), offered + 1);
  EXPECT_GT(stream_.saved_bytes(), offered);
  written_ = 1;
  offer();
  EXPECT_EQ(stream_.saved_bytes(), offered);
  EXPECT_EQ(read(100'000), whole());
  EXPECT_EQ(stream_.saved_bytes(), whole().size());
  stream_.clear();
  EXPECT_EQ(stream_.saved_bytes(), 0U);
  EXPECT_TRUE(read(1).empty());
}

TEST_F(MigrationStreamTest, TellsThatMemoryHasRunOut) {
  ASSERT_TRUE(stream_.begin());
  stream_.offer(state::Writer(), [](state::Writer&) -> bool { throw std::bad_alloc(); });
  EXPECT_THROW(read(1000), std::bad_alloc);
}

}  // namespace
}  // namespace pvrdma::device
