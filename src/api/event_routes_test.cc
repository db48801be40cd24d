// GET /v1/events, and what edits tell.
#include <chrono>
#include <fmt/core.h>
#include <future>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "api/api_fixture.h"
#include "base/event_ring.h"

namespace pvrdma::api {
namespace {

using testing::HasSubstr;

class EventRoutes : public testing::Test {
 protected:
  Reply get(std::multimap<std::string, std::string> query, Role role = Role::kAdministrator) {
    Call call;
    call.role = role;
    call.method = "GET";
    call.path = "/v1/events";
    call.query = std::move(query);
    return router_.answer(call);
  }
  Json page(std::multimap<std::string, std::string> query) {
    const Reply reply = get(std::move(query));
    EXPECT_EQ(reply.status, 200) << reply.text;
    return Json::parse(reply.text);
  }
  Json newer() { return page({{"after", std::to_string(before_)}})["events"]; }
  Reply edit(const std::string& method, const std::string& path, const Json& body) {
    Call call;
    call.client = "uid 1000";
    call.method = method;
    call.path = path;
    call.body = body.dump();
    return router_.answer(call);
  }

  FakeMember member_;
  FakeHost host_;
  const Router router_ = make_router(host_.parts(member_.plane.get()));
  const std::uint64_t before_ = events::newest().last();
};

TEST_F(EventRoutes, ShowsWhatHappened) {
  events::tell(log::Level::kWarn, {events::Type::kPath, events::Kind::kHost, "esx-02"},
               "path to host {}: none: {}", "esx-02", "a lane\nis down");
  const Json events = newer();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0]["sequence"], before_ + 1);
  EXPECT_GT(events[0]["at_ms"].get<std::uint64_t>(), 1'600'000'000'000U);
  EXPECT_EQ(events[0]["level"], "warn");
  EXPECT_EQ(events[0]["type"], "path");
  EXPECT_EQ(events[0]["kind"], "host");
  EXPECT_EQ(events[0]["object"], "esx-02");
  EXPECT_EQ(events[0]["initiator"], "");
  EXPECT_EQ(events[0]["text"], "path to host esx-02: none: a lane\\u000ais down");
}

TEST_F(EventRoutes, ComeByPages) {
  for (int i = 0; i < 3; ++i) events::tell(log::Level::kInfo, {events::Type::kStore}, "event {}", i);
  const Json first = page({{"after", std::to_string(before_)}, {"limit", "2"}});
  EXPECT_EQ(first["events"].size(), 2U);
  EXPECT_EQ(first["last"], before_ + 2);
  EXPECT_EQ(first["lost"], 0);
  EXPECT_FALSE(first["boot"].get<std::string>().empty());
  const Json second = page({{"after", first["last"].dump()}, {"limit", "2"}});
  EXPECT_EQ(second["events"].size(), 1U);
  EXPECT_EQ(second["events"][0]["text"], "event 2");
  EXPECT_EQ(page({{"after", second["last"].dump()}})["events"].size(), 0U);
}

TEST_F(EventRoutes, WithoutANumberTheNewestCome) {
  for (int i = 0; i < 300; ++i) {
    const std::string name = fmt::format("esx-{}", i % 30);
    events::tell(log::Level::kInfo, {events::Type::kHost, events::Kind::kHost, name}, "event {}", i);
  }
  const Json newest = page({});
  ASSERT_EQ(newest["events"].size(), 256U);
  EXPECT_EQ(newest["events"].back()["text"], "event 299");
  EXPECT_EQ(newest["last"], events::newest().last());
  const Json two = page({{"limit", "2"}});
  ASSERT_EQ(two["events"].size(), 2U);
  EXPECT_EQ(two["events"][0]["text"], "event 298");
  EXPECT_EQ(two["events"][1]["text"], "event 299");
  EXPECT_EQ(two["lost"], 0);
}

TEST_F(EventRoutes, SayHowManyWereLost) {
  for (std::size_t i = 0; i < 2 * events::EventRing::kOfOneObject; ++i)
    events::tell(log::Level::kInfo, {events::Type::kPower, events::Kind::kVm, "VM-77"}, "on and off");
  EXPECT_EQ(page({{"after", std::to_string(before_)}})["lost"], events::EventRing::kOfOneObject);
}

TEST_F(EventRoutes, RefuseWhatIsNoNumber) {
  const auto error = [&](const char* name, const char* value) {
    const Reply reply = get({{name, value}});
    EXPECT_EQ(reply.status, 400);
    return Json::parse(reply.text)["error"].get<std::string>();
  };
  EXPECT_THAT(error("after", "-1"), HasSubstr("after is \"-1\": give a number, 0 to "));
  EXPECT_THAT(error("after", "99999999999999999999"), HasSubstr("give a number, 0 to "));
  EXPECT_EQ(error("limit", "0"), "limit is 0: give 1 to 1024");
  EXPECT_EQ(error("limit", "1025"), "limit is 1025: give 1 to 1024");
  EXPECT_THAT(error("level", "warn"), HasSubstr("it knows only after, limit"));
}

TEST_F(EventRoutes, MayBeReadWithTheReadToken) {
  EXPECT_EQ(get({}, Role::kReadOnly).status, 200);
}

TEST_F(EventRoutes, AnEditSaysWhatItChangedAndWhoMadeIt) {
  EXPECT_EQ(edit("POST", "/v1/dvs", {{"name", "DSwitch"}}).status, 200);
  EXPECT_EQ(edit("POST", "/v1/dvs", {{"name", "DSwitch"}}).status, 409) << "a refused edit is no event";
  EXPECT_EQ(edit("PUT", "/v1/dvs/DSwitch/portgroups/Net", {{"vlan", 7}}).status, 200);
  const Json events = newer();
  ASSERT_EQ(events.size(), 2U) << events;
  EXPECT_EQ(events[0]["text"], "dvs DSwitch: added by uid 1000");
  EXPECT_EQ(events[0]["type"], "edit");
  EXPECT_EQ(events[0]["kind"], "dvs");
  EXPECT_EQ(events[0]["object"], "DSwitch");
  EXPECT_EQ(events[0]["initiator"], "uid 1000");
  EXPECT_THAT(events[1]["text"].get<std::string>(),
              HasSubstr("dvs DSwitch: changed by uid 1000: portgroups/Net"));
}

TEST_F(EventRoutes, ABatchIsToldOnceTheStoreHasItEvenIfTheNoticeIsLate) {
  const Json edits = Json::parse(R"([{"method": "POST", "path": "/v1/dvs", "body": {"name": "A"}}])");
  member_.store->hold_notices();
  auto reply = std::async(std::launch::async, [&] { return edit("POST", "/v1/batch", {{"edits", edits}}); });
  EXPECT_TRUE(control::eventually([&] {
    return !newer().empty() || reply.wait_for(std::chrono::seconds(0)) == std::future_status::ready;
  }));
  EXPECT_EQ(newer().size(), 1U) << "before the notice";
  member_.store->release_notices();
  EXPECT_EQ(reply.get().status, 200);
  EXPECT_EQ(newer().size(), 1U) << "once";
}

TEST_F(EventRoutes, ABatchIsAnEventForEachObject) {
  const Json edits = Json::parse(R"([
    {"method": "POST", "path": "/v1/dvs", "body": {"name": "A"}},
    {"method": "PUT", "path": "/v1/dvs/A/portgroups/Net", "body": {}},
    {"method": "POST", "path": "/v1/dvs", "body": {"name": "B"}}])");
  EXPECT_EQ(edit("POST", "/v1/batch", {{"edits", edits}, {"dry_run", true}}).status, 200);
  EXPECT_TRUE(newer().empty()) << "a dry run is no event";
  EXPECT_EQ(edit("POST", "/v1/batch", {{"edits", edits}}).status, 200);
  const Json events = newer();
  ASSERT_EQ(events.size(), 2U) << events;
  EXPECT_EQ(events[0]["text"], "dvs A: added by uid 1000");
  EXPECT_EQ(events[1]["text"], "dvs B: added by uid 1000");
}

}  // namespace
}  // namespace pvrdma::api
