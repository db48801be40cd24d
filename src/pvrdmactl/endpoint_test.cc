#include "pvrdmactl/endpoint.h"

#include <gtest/gtest.h>
#include <map>
#include <string>

namespace pvrdma::ctl {
namespace {

using Set = std::map<std::string, std::string>;

Result<Endpoint> chosen(const Values& globals, Set environment = {}) {
  return choose_endpoint(globals, [&environment](const char* name) { return environment[name]; });
}

std::string place(const Values& globals, const Set& environment = {}) {
  const auto endpoint = chosen(globals, environment);
  return endpoint ? endpoint->to_string() : "refused: " + endpoint.error().message;
}

TEST(Endpoint, TakesOptionsBeforeTheEnvironmentBeforeTheDefault) {
  const Set both{
      {"PVRDMA_API", "/env.sock"}, {"PVRDMA_SERVER", "https://env:1"}, {"PVRDMA_TOKEN_FILE", "/t"}};
  EXPECT_EQ(place({}), "/run/pvrdma/api.sock");
  EXPECT_EQ(place({}, {{"PVRDMA_API", "/env.sock"}}), "/env.sock");
  EXPECT_EQ(place({}, both), "https://env:1");
  EXPECT_EQ(place({{"api", "/own.sock"}}, both), "/own.sock");
  EXPECT_EQ(place({{"server", "https://own:2"}}, both), "https://own:2");
}

TEST(Endpoint, TakesTheTokenAndTheCaFromOptionsOrTheEnvironment) {
  const Set environment{{"PVRDMA_TOKEN_FILE", "/env/token"}, {"PVRDMA_CA", "/env/ca"}};
  const auto own = chosen({{"server", "https://h:1"}, {"token-file", "/token"}, {"ca", "/ca"}}, environment);
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->token_file, "/token");
  EXPECT_EQ(own->ca, "/ca");
  const auto environments = chosen({{"server", "https://h:1"}}, environment);
  ASSERT_TRUE(environments) << environments.error().message;
  EXPECT_EQ(environments->token_file, "/env/token");
  EXPECT_EQ(environments->ca, "/env/ca");
}

TEST(Endpoint, ReadsAServersHostAndPort) {
  const auto v6 = chosen({{"server", "https://[fd00::1]:8443/"}, {"token-file", "/t"}});
  ASSERT_TRUE(v6) << v6.error().message;
  EXPECT_EQ(v6->host, "fd00::1");
  EXPECT_EQ(v6->port, 8443);
  EXPECT_EQ(v6->to_string(), "https://[fd00::1]:8443");
  for (const std::string server : {"", "esx-01:8443", "http://esx-01:8443", "https://esx-01", "https://:1",
                                   "https://h:0", "https://h:65536", "https://h:1x", "https://fd00::1:8443",
                                   "https://user@h:1", "https://h/path:1", "https://h:1/v1"}) {
    EXPECT_EQ(
        place({{"server", server}, {"token-file", "/t"}}),
        "refused: the server \"" + server + "\" must be https://HOST:PORT, an IPv6 address in brackets");
  }
}

TEST(Endpoint, RefusesWhatDoesNotFitTogether) {
  EXPECT_EQ(place({{"api", "/s"}, {"server", "https://h:1"}}),
            "refused: give only one of --api and --server");
  EXPECT_EQ(place({{"server", "https://h:1"}}),
            "refused: the server https://h:1 asks for a token: give --token-file or set PVRDMA_TOKEN_FILE");
  EXPECT_EQ(place({{"ca", "/ca"}}), "refused: --ca needs --server too");
  EXPECT_EQ(place({{"api", "/s"}, {"token-file", "/t"}}), "refused: --token-file needs --server too");
  EXPECT_EQ(place({{"api", ""}}), "refused: --api: the socket's path is empty");
}

}  // namespace
}  // namespace pvrdma::ctl
