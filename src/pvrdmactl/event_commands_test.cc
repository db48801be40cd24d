#include "pvrdmactl/event_commands.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

namespace pvrdma::ctl {
namespace {

const std::string kHello = R"({"event":"hello","data":{"boot":"1"}})"
                           "\n";
const std::string kEvent =
    R"({"sequence":7,"at_ms":1700000000123,"level":"warn","type":"link","kind":"vm","object":"VM-01",)"
    R"("initiator":"","text":"adapter VM-01: link down"})";
std::string page_line(const std::string& events, int lost) {
  return R"({"event":"events","data":{"boot":"1","events":[)" + events + R"(],"last":7,"lost":)" +
         std::to_string(lost) + "}}\n";
}

TEST(FollowedEvents, ShowsOnlyTheEvents) {
  EXPECT_EQ(followed_events(kHello + page_line(kEvent, 0), false).value(),
            "7 2023-11-14T22:13:20.123Z warn adapter VM-01: link down\n");
  EXPECT_EQ(followed_events(kHello, false).value(), "");
}

TEST(FollowedEvents, SaysWhatWasLost) {
  EXPECT_EQ(followed_events(page_line(kEvent, 2), false).value(),
            "(2 events are no longer held: the daemon keeps the newest ones)\n"
            "7 2023-11-14T22:13:20.123Z warn adapter VM-01: link down\n");
}

TEST(FollowedEvents, JsonIsAnEventALine) {
  EXPECT_EQ(followed_events(page_line(kEvent + "," + kEvent, 2), true).value(),
            kEvent + "\n" + kEvent + "\n");
}

TEST(FollowedEvents, NoFieldControlsTheTerminal) {
  std::string event = kEvent;
  event.replace(event.find("warn"), 4, "\\u001b[2J");
  EXPECT_EQ(followed_events(page_line(event, 0), false).value(),
            "7 2023-11-14T22:13:20.123Z \\u001b[2J adapter VM-01: link down\n");
}

TEST(FollowedEvents, ATimeBeyondTheCalendarIsShown) {
  std::string event = kEvent;
  event.replace(event.find("1700000000123"), 13, "18446744073709551615");
  EXPECT_EQ(followed_events(page_line(event, 0), false).value(),
            "7 9999-12-31T23:59:59.999Z warn adapter VM-01: link down\n");
}

TEST(FollowedEvents, AnotherVersionIsRefused) {
  for (const char* const line : {"{\"event\":\"events\",\"data\":{}}\n", "no JSON\n"}) {
    const auto refused = followed_events(line, false);
    ASSERT_FALSE(refused) << line;
    EXPECT_THAT(refused.error().message, testing::HasSubstr("are they of the same version?")) << line;
  }
}

TEST(FollowedEvents, TheStreamBeginsWhereTheListWould) {
  const Command command = followed(*grammar().command("events"));
  EXPECT_EQ(command.path, "/v1/watch?after={after}");
}

}  // namespace
}  // namespace pvrdma::ctl
