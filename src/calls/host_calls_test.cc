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

// Refuses the next call.
void refuse(transport::tcp::RawListener& listener, transport::wire::RejectReason reason) {
  transport::tcp::RawPeer peer = listener.accept();
  EXPECT_TRUE(peer.next_as<transport::wire::Hello>());
  EXPECT_TRUE(peer.send(
      transport::wire::Frame{.body = transport::wire::Reject{
                                 .reason = reason, .sentence = transport::wire::Sentence("it is full")}}));
  EXPECT_TRUE(peer.ended());
}

TEST(HostCallsTest, AHostWithoutRoomIsTriedAgain) {
  transport::tcp::RawListener listener(address_of(2));
  std::thread there([&] {
    refuse(listener, transport::wire::RejectReason::kNoRoom);
    refuse(listener, transport::wire::RejectReason::kNoRoom);
    EXPECT_TRUE(listener.accept_as("esx-02").ended());
  });
  const auto call = calls_by(Route{address_of(1), address_of(2)}).call("esx-02");
  EXPECT_TRUE(call) << call.error().message;
  if (call) (*call)->interrupt();
  there.join();
}

TEST(HostCallsTest, AHostIsNotTriedForEver) {
  transport::tcp::RawListener listener(address_of(2));
  std::thread there([&] {
    for (int i = 0; i < 3; ++i) refuse(listener, transport::wire::RejectReason::kNoRoom);
  });
  const auto full = calls_by(Route{address_of(1), address_of(2)}).call("esx-02");
  there.join();
  ASSERT_FALSE(full);
  EXPECT_EQ(full.error().code, EAGAIN);
  EXPECT_EQ(full.error().kind, ErrorKind::kUnavailable);
  EXPECT_NE(full.error().message.find("it is full"), std::string::npos) << full.error().message;
  EXPECT_FALSE(listener.turn_one_away()) << "a fourth try";
}

TEST(HostCallsTest, AHostThatForbidsTheCallIsNotTriedAgain) {
  transport::tcp::RawListener listener(address_of(2));
  std::thread there([&] { refuse(listener, transport::wire::RejectReason::kNotAllowed); });
  const auto forbidden = calls_by(Route{address_of(1), address_of(2)}).call("esx-02");
  there.join();
  ASSERT_FALSE(forbidden);
  EXPECT_EQ(forbidden.error().code, EACCES);
  EXPECT_FALSE(listener.turn_one_away()) << "a second try";
}

}  // namespace
}  // namespace pvrdma::calls
