#include "api/answers.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pvrdma::api {
namespace {

using Json = nlohmann::json;

snapshots::Snapshot two_adapters() {
  snapshots::Snapshot snapshot;
  snapshots::AdapterSnapshot adapter;
  adapter.name = "VM-01";
  adapter.state = "active";
  adapter.mac = "52:54:00:12:34:51";
  adapter.hardware_version = 14;
  adapter.doorbells = "mapped";
  adapter.mtu = 4096;
  adapter.native_endpoints = "off: no link";
  adapter.tx_bytes = 1ULL << 60;
  adapter.gids = {{0, "fe80::1", "v2"}};
  adapter.objects = {{"qps", 3}};
  adapter.budgets = {{Budget::kQps, 3, 4096, 1}, {Budget::kRegistered, 5, 64, 0}};
  adapter.paths = {{"local", 5, 640}};
  adapter.groups = {{"verbs", {{"tx_bytes", 7}}}};
  snapshot.adapters.push_back(adapter);
  adapter.name = "VM-02";
  snapshot.adapters.push_back(adapter);
  for (const char* name : {"VM-01", "VM-02"}) {
    snapshots::QpSnapshot qp;
    qp.adapter = name;
    qp.qpn = 9;
    snapshot.qps.push_back(qp);
  }
  snapshot.host = {{"switch", {{"duplicate_gids_refused", 2}}}};
  return snapshot;
}

TEST(Answers, TellsEverythingAboutAnAdapter) {
  const Json adapter = Json::parse(text_of(two_adapters().adapters[0]));
  EXPECT_EQ(adapter["name"], "VM-01");
  EXPECT_EQ(adapter["mac"], "52:54:00:12:34:51");
  EXPECT_EQ(adapter["doorbells"], "mapped");
  EXPECT_EQ(adapter["mtu"], 4096);
  EXPECT_EQ(adapter["native_endpoints"], "off: no link");
  EXPECT_EQ(adapter["tx_bytes"], 1ULL << 60);
  EXPECT_EQ(adapter["gids"][0]["gid"], "fe80::1");
  EXPECT_EQ(adapter["objects"]["qps"], 3);
  EXPECT_EQ(adapter["budgets"]["qps"], (Json{{"use", 3}, {"limit", 4096}, {"refused", 1}}));
  EXPECT_EQ(adapter["budgets"]["registered_mib"]["limit"], 64);
  EXPECT_EQ(adapter["paths"]["local"]["payload_bytes"], 640);
}

TEST(Answers, ListsAdapters) {
  const Json list = Json::parse(text_of(two_adapters().adapters));
  ASSERT_EQ(list.size(), 2U);
  EXPECT_EQ(list[1]["name"], "VM-02");
  EXPECT_EQ(text_of(std::vector<snapshots::AdapterSnapshot>{}), "[]");
}

TEST(Answers, FiltersQpsAndStatsByAdapter) {
  EXPECT_EQ(Json::parse(text_of(qps_of(two_adapters(), ""))).size(), 2U);
  const Json qps = Json::parse(text_of(qps_of(two_adapters(), "VM-02")));
  ASSERT_EQ(qps.size(), 1U);
  EXPECT_EQ(qps[0]["adapter"], "VM-02");

  const Json all = Json::parse(stats_json(two_adapters(), ""));
  EXPECT_EQ(all["adapters"].size(), 2U);
  EXPECT_EQ(all["host"]["switch"]["duplicate_gids_refused"], 2);
  const Json one = Json::parse(stats_json(two_adapters(), "VM-01"));
  ASSERT_EQ(one["adapters"].size(), 1U);
  EXPECT_EQ(one["adapters"][0]["verbs"]["tx_bytes"], 7);
  EXPECT_FALSE(one.contains("host"));
}

// The guest chooses the name of its system, and the daemon passes it on.
TEST(Answers, SurvivesTextThatIsNoUtf8) {
  snapshots::AdapterSnapshot adapter;
  adapter.guest_os = "Linux \xff\"\n";
  const Json parsed = Json::parse(text_of(adapter));
  EXPECT_EQ(parsed["guest_os"], "Linux \xef\xbf\xbd\"\n");
}

TEST(Answers, CarriesAnErrorsSentence) {
  EXPECT_EQ(error_text({.error = "no \"x\""}), "{\"error\":\"no \\\"x\\\"\"}");
  const ErrorAnswer whole{.error = "no", .field = "adapter.mac", .index = 3};
  EXPECT_EQ(error_text(whole), R"({"error":"no","field":"adapter.mac","index":3})");
  EXPECT_EQ(error_text(error_from(error_text(whole))), error_text(whole));
}

}  // namespace
}  // namespace pvrdma::api
