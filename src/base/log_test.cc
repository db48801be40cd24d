#include "base/log.h"

#include <algorithm>
#include <array>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "base/fd.h"
#include "base/log_writer.h"

namespace pvrdma::log {
namespace {

using namespace std::chrono_literals;

TEST(LogLimiter, LetsTheBurstThroughThenOneLinePerInterval) {
  LogLimiter limiter(3, 1s);
  const Instant start{100s};
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_FALSE(limiter.allow(start));
  EXPECT_FALSE(limiter.allow(start + 999ms));
  EXPECT_TRUE(limiter.allow(start + 1001ms));
  EXPECT_EQ(limiter.suppressed(), 2U);
  EXPECT_FALSE(limiter.allow(start + 1002ms));
}

TEST(LogLimiter, NeverSavesUpMoreThanTheBurst) {
  LogLimiter limiter(2, 1s);
  EXPECT_TRUE(limiter.allow(Instant{1000s}));
  EXPECT_TRUE(limiter.allow(Instant{2000s}));
  EXPECT_TRUE(limiter.allow(Instant{2000s}));
  EXPECT_FALSE(limiter.allow(Instant{2000s}));
}

// A pipe without a reader, like a journal that hangs.
struct FullPipe {
  Fd read_end;
  Fd write_end;

  FullPipe() {
    int ends[2];
    EXPECT_EQ(::pipe2(ends, O_CLOEXEC), 0);
    read_end = Fd(ends[0]);
    write_end = Fd(ends[1]);
    ::fcntl(ends[1], F_SETPIPE_SZ, 4096);
  }
  std::string read_some() const {
    std::array<char, 65536> bytes{};
    const ssize_t got = ::read(read_end.get(), bytes.data(), bytes.size());
    return {bytes.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
  }
};

TEST(LogWriter, WritesLinesWithTimeAndLevelInTheirOrder) {
  const FullPipe pipe;
  auto* const writer = new LogWriter(pipe.write_end.get());  // lives as long as the process
  writer->write(Level::kWarn, "first");
  writer->write(Level::kInfo, "second");
  ASSERT_TRUE(writer->flush(20s));
  const std::string text = pipe.read_some();
  EXPECT_THAT(text, testing::MatchesRegex(
                        "[0-9-]+T[0-9:]+\\.[0-9]+ warning first\n[0-9-]+T[0-9:]+\\.[0-9]+ info second\n"));
}

TEST(LogWriter, APipeThatNobodyReadsHoldsUpNobodyAndLosesAreCounted) {
  static const FullPipe pipe;  // the writer's thread is inside a write() for ever
  auto* const writer = new LogWriter(pipe.write_end.get());
  const std::string line(1000, 'x');
  for (int i = 0; i < 2'000; ++i) writer->write(Level::kInfo, line);
  EXPECT_GT(writer->dropped(), 1'000u);
  EXPECT_LT(writer->dropped(), 2'000u);
  EXPECT_FALSE(writer->flush(10ms)) << "and says so in bounded time";

  // The test reads all lines that were kept, which makes room for one more.
  const auto kept = static_cast<std::ptrdiff_t>(2'000 - writer->dropped());
  std::string text;
  while (std::ranges::count(text, 'x') < kept * std::ssize(line) ||
         text.find("line(s) were dropped") == std::string::npos) {
    text += pipe.read_some();
  }
  writer->write(Level::kInfo, "as before");
  while (text.find("as before") == std::string::npos) text += pipe.read_some();
  EXPECT_TRUE(writer->flush(20s));
}

TEST(LogWriter, CutsOffALineThatIsTooLong) {
  static const FullPipe pipe;
  auto* const writer = new LogWriter(pipe.write_end.get());
  writer->write(Level::kInfo, std::string(LogWriter::kLineBytes + 100, 'y'));
  std::string text;
  while (text.find('\n') == std::string::npos) text += pipe.read_some();
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, 'y')), LogWriter::kLineBytes);
}

}  // namespace
}  // namespace pvrdma::log
