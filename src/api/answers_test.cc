#include "api/answers.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <vector>

namespace pvrdma::api {
namespace {

using Json = nlohmann::json;
using testing::ElementsAre;

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

// Ten QPs: 9, 8 ... 0. The even ones are connected, by turns over TCP and not at all.
snapshots::Snapshot many_qps() {
  snapshots::Snapshot snapshot = two_adapters();
  snapshot.qps.clear();
  for (std::uint32_t qpn = 10; qpn-- != 0;) {
    snapshots::QpSnapshot& qp = snapshot.qps.emplace_back();
    qp.adapter = "VM-01";
    qp.qpn = qpn;
    if (qpn % 2 != 0) continue;
    qp.remote_gid = "fe80::2";
    qp.path = qpn % 4 == 0 ? "tcp" : "";
    qp.path_reason = qpn % 4 == 0 ? "no HCA" : "no host has it";
    qp.peer_host = qpn % 4 == 0 ? "esx-02" : "";
  }
  return snapshot;
}

TEST(Answers, QpsComeInPagesByQpnEachOnce) {
  const snapshots::Snapshot snapshot = many_qps();
  const auto qpns = [&](const QpWish& wish) {
    std::vector<std::uint32_t> out;
    for (const auto& qp : qps_of(snapshot, wish)) out.push_back(qp.qpn);
    return out;
  };
  EXPECT_THAT(qpns({.adapter = "VM-01", .limit = 4}), ElementsAre(1, 2, 3, 4)) << "0 is no QPN of a guest";
  EXPECT_THAT(qpns({.adapter = "VM-01", .after = 4, .limit = 4}), ElementsAre(5, 6, 7, 8));
  EXPECT_THAT(qpns({.adapter = "VM-01", .after = 8, .limit = 4}), ElementsAre(9));
  EXPECT_THAT(qpns({.adapter = "VM-01", .after = UINT32_MAX, .limit = 4}), ElementsAre());
  EXPECT_THAT(qpns({.path = "tcp"}), ElementsAre(8, 4, 0));
  EXPECT_THAT(qpns({.adapter = "VM-01", .path = "none", .after = 2, .limit = 9}), ElementsAre(6));
}

TEST(Answers, CountsConnectionsByPathAndReason) {
  EXPECT_EQ(Json::parse(text_of(path_counts_of(many_qps(), "esx-01"))), Json::parse(R"([
    {"adapter": "VM-01", "path": "none", "reason": "no host has it", "peer_host": "", "connections": 2},
    {"adapter": "VM-01", "path": "tcp", "reason": "no HCA", "peer_host": "esx-02", "connections": 3}])"));
}

TEST(Answers, FiltersQpsAndStatsByAdapter) {
  EXPECT_EQ(qps_of(two_adapters(), {}).size(), 2U);
  const Json qps = Json::parse(text_of(qps_of(two_adapters(), {.adapter = "VM-02"})));
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
