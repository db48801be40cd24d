#include "pvrdmactl/api_client.h"

#include <gtest/gtest.h>
#include <string>

namespace pvrdma::ctl {
namespace {

// What it gets from a living daemon is tested in tests/cli.

TEST(ApiClient, SaysWhereItLookedForTheDaemon) {
  const auto answer = get("/nowhere/api.sock", "/v1/version");
  ASSERT_FALSE(answer);
  EXPECT_EQ(answer.error().message,
            "the daemon cannot be reached at /nowhere/api.sock (No such file or directory): is pvrdmad "
            "running, and is "
            "this its api_socket?");
}

TEST(ApiClient, RefusesAPathNoSocketCanHave) {
  EXPECT_EQ(get("", "/v1/version").error().message, "the API socket's path \"\" must have 1 to 107 bytes");
  const std::string path(108, 'x');
  EXPECT_EQ(get(path, "/v1/version").error().message,
            "the API socket's path \"" + path + "\" must have 1 to 107 bytes");
}

}  // namespace
}  // namespace pvrdma::ctl
