// HttpSession: the bounds of what it keeps. No request here has a timeout, so a slow machine changes nothing.
#include "control/store/http_session.h"

#include <gtest/gtest.h>

#include "control/store/etcd_testbed.h"

namespace pvrdma::control::test {
namespace {

constexpr HttpBounds kBounds{.body_mib = 2, .line_mib = 1};
constexpr std::size_t kBodyBytes = kBounds.body_mib << 20;
constexpr std::size_t kLineBytes = kBounds.line_mib << 20;

HttpRequest request_to(const NonsenseServer& server) {
  return {.url = server.url() + "/", .body = "{}"};
}

TEST(HttpSession, KeepsABodyOfTheBoundAndRefusesALongerOne) {
  std::size_t bytes = kBodyBytes;
  NonsenseServer server(
      [&](const std::string&) { return "HTTP/1.1 200 OK\r\n\r\n" + std::string(bytes, 'x'); });
  HttpSession session({}, kBounds);
  const auto whole = session.post(request_to(server));
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->body.size(), kBodyBytes);

  ++bytes;
  const auto longer = session.post(request_to(server));
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().reason, "its answer is longer than 2 MiB");
  EXPECT_TRUE(longer.error().sent);
}

TEST(HttpSession, PassesALineOfTheBoundAndRefusesALongerOne) {
  std::size_t bytes = kLineBytes;
  NonsenseServer server(
      [&](const std::string&) { return "HTTP/1.1 200 OK\r\n\r\n" + std::string(bytes, 'x') + "\nlast\n"; });
  HttpSession session({}, kBounds);
  std::vector<std::size_t> lines;
  const HttpSession::LineSink sink = [&](std::string_view line) {
    lines.push_back(line.size());
    return true;
  };
  const HttpSession::KeepOn keep_on = [] { return true; };
  ASSERT_TRUE(session.stream(request_to(server), sink, keep_on));
  EXPECT_EQ(lines, (std::vector<std::size_t>{kLineBytes, 4}));

  ++bytes;
  lines.clear();
  const auto longer = session.stream(request_to(server), sink, keep_on);
  ASSERT_FALSE(longer);
  EXPECT_EQ(longer.error().reason, "it sent an event longer than 1 MiB");
  EXPECT_TRUE(lines.empty());
}

}  // namespace
}  // namespace pvrdma::control::test
