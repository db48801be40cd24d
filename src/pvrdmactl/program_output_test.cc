#include "pvrdmactl/program_output.h"

#include <cerrno>
#include <gtest/gtest.h>

namespace pvrdma::ctl {
namespace {

using namespace std::chrono_literals;

TEST(PrintedBy, IsStandardOutput) {
  EXPECT_EQ(printed_by({"sh", "-c", "echo one; echo two >&2"}, 100, 1min).value(), "one\n");
}

TEST(PrintedBy, IsCutAfterAboutTheLimit) {
  const auto printed = printed_by({"sh", "-c", "yes | head -c 1000000"}, 10'000, 1min);
  EXPECT_GE(printed->size(), 10'000U);
  EXPECT_LT(printed->size(), 100'000U);
}

TEST(PrintedBy, FailsWithTheProgram) {
  EXPECT_EQ(printed_by({"/nowhere/program"}, 100, 1min).error().code, ENOENT);
  EXPECT_EQ(printed_by({"false"}, 100, 1min).error().message, "it ended with an error");
}

TEST(PrintedBy, DoesNotWaitForEver) {
  EXPECT_EQ(printed_by({"sh", "-c", "exec sleep 600"}, 100, 10ms).error().message, "it does not end");
}

}  // namespace
}  // namespace pvrdma::ctl
