#include "base/log.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <ctime>
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>
#include <sys/stat.h>
#include <unistd.h>

#include "base/fd.h"
#include "base/log_format.h"
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

TEST(LogLimiter, ALineThatIsGivenBackMayBeWrittenAgain) {
  LogLimiter limiter(2, 1s);
  const Instant start{100s};
  limiter.give_back();  // never more than the burst
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_TRUE(limiter.allow(start));
  limiter.give_back();
  EXPECT_TRUE(limiter.allow(start));
  EXPECT_FALSE(limiter.allow(start));
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
  auto* const writer = new LogWriter(pipe.write_end.get(), Format::kText);  // lives as long as the process
  writer->write(Level::kWarn, "first");
  writer->write(Level::kInfo, "second");
  ASSERT_TRUE(writer->flush(20s));
  const std::string text = pipe.read_some();
  EXPECT_THAT(text, testing::MatchesRegex(
                        "[0-9-]+T[0-9:]+\\.[0-9]+Z warning first\n[0-9-]+T[0-9:]+\\.[0-9]+Z info second\n"));
}

// What a writer of this format writes for a line.
std::string written(Format format, Level level, std::string_view line) {
  const FullPipe pipe;
  auto* const writer = new LogWriter(pipe.write_end.get(), format);  // lives as long as the process
  writer->write(level, line);
  EXPECT_TRUE(writer->flush(20s));
  return pipe.read_some();
}

TEST(LogWriter, TheTimeIsUtcInEveryTimeZone) {
  ASSERT_EQ(::setenv("TZ", "XXX-14", 1), 0);
  ::tzset();
  const std::string text = written(Format::kText, Level::kInfo, "x");
  ::unsetenv("TZ");
  ::tzset();
  std::tm parts{};
  ASSERT_NE(::strptime(text.c_str(), "%Y-%m-%dT%H:%M:%S", &parts), nullptr) << text;
  EXPECT_NEAR(static_cast<double>(::timegm(&parts)), static_cast<double>(std::time(nullptr)), 3600);
}

TEST(LogWriter, TheJournalGetsPrioritiesAndNoTime) {
  EXPECT_EQ(written(Format::kJournal, Level::kError, "a"), "<3>a\n");
  EXPECT_EQ(written(Format::kJournal, Level::kWarn, "b"), "<4>b\n");
  EXPECT_EQ(written(Format::kJournal, Level::kInfo, "c"), "<6>c\n");
  EXPECT_EQ(written(Format::kJournal, Level::kDebug, "d"), "<7>d\n");
}

TEST(LogWriter, JsonIsOneObjectALine) {
  const std::string text = written(Format::kJson, Level::kWarn, "VM \"a\\b\"\n\xff");
  EXPECT_EQ(std::ranges::count(text, '\n'), 1);
  const auto json = nlohmann::json::parse(text);
  EXPECT_EQ(json.at("level"), "warning");
  EXPECT_EQ(json.at("message"), "VM \"a\\b\"\\u000a\\xff");
  EXPECT_THAT(json.at("time").get<std::string>(), testing::MatchesRegex("[0-9-]+T[0-9:]+\\.[0-9]+Z"));
  EXPECT_EQ(json.size(), 3u);
}

TEST(LogWriter, AMessageCannotForgeALineOrReachTheTerminal) {
  const std::string evil =
      "monitor: \xc2\x9b"
      "2J\x1b[31mred\n<0>2026-11-25T00:00:00.000000Z error adapter B: forged\xe2\x80\xae";
  for (const Format format : {Format::kText, Format::kJournal, Format::kJson}) {
    const std::string text = written(format, Level::kInfo, evil);
    EXPECT_EQ(std::ranges::count(text, '\n'), 1) << text;
    EXPECT_EQ(text.find('\x1b'), std::string::npos) << text;
    EXPECT_EQ(text.find("\xc2\x9b"), std::string::npos) << text;
    EXPECT_EQ(text.find("\xe2\x80\xae"), std::string::npos) << text;
  }
}

TEST(LogFormat, IsTheJournalsOnlyIfStandardErrorIsTheJournal) {
  struct stat state {};
  ASSERT_EQ(::fstat(STDERR_FILENO, &state), 0);
  ::unsetenv("JOURNAL_STREAM");
  EXPECT_EQ(default_format(), Format::kText);
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", state.st_dev, state.st_ino).c_str(), 1);
  EXPECT_EQ(default_format(), Format::kJournal);
  ::setenv("JOURNAL_STREAM", fmt::format("{}:{}", state.st_dev, state.st_ino + 1).c_str(), 1);
  EXPECT_EQ(default_format(), Format::kText) << "standard error was redirected to a file";
  ::unsetenv("JOURNAL_STREAM");
}

TEST(LogWriter, APipeThatNobodyReadsHoldsUpNobodyAndLosesAreCounted) {
  static const FullPipe pipe;  // the writer's thread is inside a write() for ever
  auto* const writer = new LogWriter(pipe.write_end.get(), Format::kText);
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
  auto* const writer = new LogWriter(pipe.write_end.get(), Format::kText);
  writer->write(Level::kInfo, std::string(LogWriter::kLineBytes + 100, 'y'));
  std::string text;
  while (text.find('\n') == std::string::npos) text += pipe.read_some();
  EXPECT_EQ(static_cast<std::size_t>(std::ranges::count(text, 'y')), LogWriter::kLineBytes);
}

}  // namespace
}  // namespace pvrdma::log
