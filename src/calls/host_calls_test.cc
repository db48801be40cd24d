#include "calls/host_calls.h"

#include <cerrno>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <thread>

#include "transport/tcp/raw_peer.h"

namespace pvrdma::calls {
namespace {

using transport::tcp::address_of;

HostCalls calls_by(const std::optional<Route>& route) {
  return {"esx-01", [route](const std::string&) { return route; }, nullptr, "cubic"};
}

TEST(HostCallsTest, AHostThatTakesTheCallIsHeard) {
  transport::tcp::RawListener listener(address_of(2));
  std::thread there([&] { EXPECT_TRUE(listener.accept_as("esx-02").ended()); });
  const auto call = calls_by(Route{address_of(1), address_of(2)}).call("esx-02");
  EXPECT_TRUE(call) << call.error().message;
  if (call) (*call)->interrupt();
  there.join();
}

TEST(HostCallsTest, AHostThatCannotBeCalledIsUnavailable) {
  const auto lost = calls_by(std::nullopt).call("esx-02");
  ASSERT_FALSE(lost);
  EXPECT_EQ(lost.error().code, EHOSTUNREACH);
  EXPECT_EQ(lost.error().kind, ErrorKind::kUnavailable);
  const auto silent = calls_by(Route{address_of(1), address_of(2)}).call("esx-02");
  ASSERT_FALSE(silent);
  EXPECT_EQ(silent.error().code, ECONNREFUSED) << silent.error().message;
  EXPECT_EQ(silent.error().kind, ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace pvrdma::calls
