#include "api/process_routes.h"

#include <ctime>
#include <gtest/gtest.h>
#include <sys/resource.h>

namespace pvrdma::api {
namespace {

TEST(ProcessAnswer, HasTheLimitsAndTheClockOfThisProcess) {
  rlimit files{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &files), 0);
  const ProcessAnswer now = process_now("1.2.3", true, {{"tcp", "/etc/a.pem", 7}});
  EXPECT_EQ(now.version, "1.2.3");
  EXPECT_TRUE(now.in_cluster);
  EXPECT_EQ(now.open_files_max.value_or(RLIM_INFINITY), files.rlim_cur);
  EXPECT_NEAR(static_cast<double>(now.now_s), static_cast<double>(std::time(nullptr)), 60);
  EXPECT_EQ(now.certificates.at(0).file, "/etc/a.pem");
}

}  // namespace
}  // namespace pvrdma::api
