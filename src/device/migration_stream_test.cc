#include "device/migration_stream.h"

#include <cerrno>
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

TEST_F(MigrationStreamTest, WritesAheadWhatOneMessageMayWant) {
  constexpr std::size_t kRecordBytes = 100'000;
  std::uint32_t written = 0;
  ASSERT_TRUE(stream_.begin());
  stream_.offer(state::Writer(), [&written](state::Writer& into) {
    if (written == 30) return false;
    into.begin(kKind);
    for (std::size_t i = 0; i < kRecordBytes; ++i) into.flag("byte", false);
    into.end();
    ++written;
    return true;
  });
  const auto catch_up = [this] {
    while (stream_.is_behind()) stream_.write_ahead();
  };
  catch_up();
  EXPECT_EQ(written, MigrationStream::kStepBytes / kRecordBytes + 1);
  const std::vector<std::byte> first = read(MigrationStream::kStepBytes);
  EXPECT_EQ(first.size(), MigrationStream::kStepBytes);
  EXPECT_EQ(written, MigrationStream::kStepBytes / kRecordBytes + 1) << "all of it was there";
  catch_up();
  read(2 * MigrationStream::kStepBytes);
  EXPECT_EQ(written, 30U);
  EXPECT_EQ(read(1).size(), 0U);
  EXPECT_FALSE(stream_.is_behind());
}

TEST_F(MigrationStreamTest, KeepsOnlyWhatIsNotDropped) {
  const std::vector<std::byte> some{std::byte{1}, std::byte{2}, std::byte{3}};
  ASSERT_EQ(stream_.write(some, 7), 0);
  stream_.drop_front(2);
  EXPECT_EQ(std::vector(stream_.written().begin(), stream_.written().end()), std::vector{std::byte{3}});
  ASSERT_EQ(stream_.write(some, 7), 0);
  EXPECT_EQ(std::vector(stream_.written().begin(), stream_.written().end()),
            (std::vector{std::byte{3}, std::byte{1}, std::byte{2}, std::byte{3}}));
  EXPECT_EQ(stream_.written_bytes(), 6U);
  EXPECT_EQ(stream_.write(some, 7), ENOSPC) << "dropped bytes count, too";
  stream_.clear();
  EXPECT_EQ(stream_.written_bytes(), 0U);
  EXPECT_TRUE(stream_.written().empty());
}

TEST_F(MigrationStreamTest, TellsThatMemoryHasRunOut) {
  ASSERT_TRUE(stream_.begin());
  stream_.offer(state::Writer(), [](state::Writer&) -> bool { throw std::bad_alloc(); });
  EXPECT_THROW(read(1000), std::bad_alloc);
}

}  // namespace
}  // namespace pvrdma::device
