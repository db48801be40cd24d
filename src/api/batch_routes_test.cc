// POST /v1/batch: several edits, all or none of them.
#include <fmt/core.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "api/api_fixture.h"
#include "api/query.h"
#include "api/requests.h"
#include "control/model/edits.h"
#include "control/model/records.h"
#include "schema/object.h"

namespace pvrdma::api {
namespace {

using testing::HasSubstr;

class BatchTest : public testing::Test {
 protected:
  static Json edit(const char* method, const char* path, const Json& body = nullptr) {
    Json made{{"method", method}, {"path", path}};
    if (!body.is_null()) made["body"] = body;
    return made;
  }
  Reply batch(const Json& edits, bool dry_run = false, std::optional<std::uint64_t> revision = {}) {
    Call call;
    call.method = "POST";
    call.path = "/v1/batch";
    call.role = role_;
    Json body{{"edits", edits}, {"dry_run", dry_run}};
    if (revision) body["revision"] = *revision;
    call.body = body.dump();
    return router_.answer(call);
  }
  static Json whole_vm() {
    return Json::array(
        {edit("POST", "/v1/vms", {{"name", "VM-01"}, {"hardware_version", 14}, {"memory_mib", 512}})});
  }
  // Another host makes the switch Other just before this host's next commit.
  void other_host_edits_before_the_commit() {
    member_.store->before_commit([this] {
      if (inventory().switches.contains("Other")) return;
      const control::Inventory before = inventory();
      control::Inventory other = before;
      ASSERT_TRUE(control::edits::create_dvs(other, {.name = "Other"}));
      other.revision = before.revision + 1;
      for (const control::Change& change : control::difference(before, other))
        member_.cluster->put(change.key, *change.value);
    });
  }
  control::Inventory inventory() const { return *member_.plane->inventory(); }

  // What the deployment guide does, up to a VM with its adapter.
  static Json whole_setup() {
    return Json::array(
        {edit("POST", "/v1/dvs", {{"name", "DSwitch"}, {"uplinks", 1}}),
         edit("PUT", "/v1/dvs/DSwitch/hosts/self"),
         edit("PUT", "/v1/dvs/DSwitch/hosts/self/uplinks/uplink1", {{"vmnic", "vmnic0"}}),
         edit("PUT", "/v1/dvs/DSwitch/portgroups/DPortGroup", {{"vlan", 5}}),
         edit("POST", "/v1/hosts/self/vmks", {{"name", "vmk2"}, {"address", "10.0.0.1"}}),
         edit("PUT", "/v1/hosts/self/advanced", {{"path", "/Net/PVRDMAVmknic"}, {"value", "vmk2"}}),
         edit("POST", "/v1/hosts/self/rulesets/pvrdma/allowed", {{"network", "10.0.0.0/8"}}),
         edit("DELETE", "/v1/hosts/self/rulesets/pvrdma/allowed?network=10.0.0.0%2F8"),
         edit("POST", "/v1/vms", {{"name", "VM-01"}, {"hardware_version", 14}, {"memory_mib", 512}}),
         edit("PUT", "/v1/vms/VM-01/adapter", {{"portgroup", "DPortGroup"}})});
  }

  Role role_ = Role::kAdministrator;
  FakeMember member_;
  FakeHost host_;
  const Router router_ = make_router(host_.parts(member_.plane.get()));
};

TEST_F(BatchTest, MakesAllEditsAsOneRevision) {
  const std::uint64_t before = inventory().revision;
  const Reply reply = batch(whole_setup());
  ASSERT_EQ(reply.status, 200) << reply.text;
  const Json answer = Json::parse(reply.text);
  EXPECT_EQ(answer["revision"], before + 1);
  EXPECT_EQ(answer["answers"].size(), whole_setup().size());
  EXPECT_EQ(answer["answers"][0]["name"], "DSwitch");
  EXPECT_EQ(answer["answers"][9]["adapter"]["portgroup"], "DPortGroup") << "each answer is the edit's own";
  EXPECT_EQ(inventory().revision, before + 1);
  EXPECT_EQ(inventory().hosts.at("esx-01").pvrdma_vmknic, "vmk2");
  EXPECT_TRUE(inventory().vms.at("VM-01").adapter.has_value());
  std::vector<std::string> told;
  for (const Json& change : answer["changes"])
    told.push_back(change["kind"].get<std::string>() + " " + change["name"].get<std::string>() + " " +
                   change["change"].get<std::string>());
  EXPECT_THAT(told, testing::ElementsAre("dvs DSwitch added", "host esx-01 changed", "vm VM-01 added"));
  EXPECT_EQ(answer["changes"][1]["members"],
            Json::parse(R"([{"member":"pvrdma_vmknic","before":"","after":"vmk2"},
                            {"member":"vmks/vmk2","before":null,"after":"10.0.0.1"}])"));
}

TEST_F(BatchTest, ChangesThatCancelEachOtherOutAreNone) {
  const std::uint64_t before = inventory().revision;
  const Json answer = Json::parse(
      batch(Json::array({edit("POST", "/v1/dvs", {{"name", "DSwitch"}}), edit("DELETE", "/v1/dvs/DSwitch")}))
          .text);
  EXPECT_EQ(answer["changes"], Json::array());
  EXPECT_EQ(answer["revision"], inventory().revision);
  EXPECT_LE(inventory().revision, before + 1) << "at most the next switch's id is new";
}

TEST_F(BatchTest, ADryRunAnswersTheSameAndChangesNothing) {
  const control::Inventory before = inventory();
  const Json dry = Json::parse(batch(whole_setup(), /*dry_run=*/true).text);
  EXPECT_EQ(inventory(), before);
  EXPECT_EQ(dry["revision"], before.revision) << "the revision that it was tried on";
  const Json real = Json::parse(batch(whole_setup()).text);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(dry["answers"][i], real["answers"][i]) << i;
  EXPECT_EQ(dry["changes"][0], real["changes"][0]);
  EXPECT_EQ(dry["changes"][1], real["changes"][1]);
}

TEST_F(BatchTest, ARefusedEditUndoesThoseBeforeItAndIsNamed) {
  const control::Inventory before = inventory();
  for (const bool dry_run : {false, true}) {
    Json edits = whole_setup();
    edits[3] = edit("PUT", "/v1/dvs/OtherSwitch/portgroups/DPortGroup", {{"vlan", 5}});
    const Reply reply = batch(edits, dry_run);
    EXPECT_EQ(reply.status, 404);
    const Json answer = Json::parse(reply.text);
    EXPECT_EQ(answer["index"], 3);
    EXPECT_THAT(answer["error"].get<std::string>(),
                HasSubstr("edit 3, PUT /v1/dvs/OtherSwitch/portgroups/DPortGroup: "));
    EXPECT_THAT(answer["error"].get<std::string>(), HasSubstr("OtherSwitch"));
  }
  EXPECT_EQ(inventory(), before);
}

TEST_F(BatchTest, AMistakeInABodyNamesItsMember) {
  const Json wrong =
      Json::parse(batch(Json::array({edit("PUT", "/v1/dvs/DSwitch/hosts/self"),
                                     edit("POST", "/v1/dvs", {{"name", "x"}, {"uplinks", 0}})}))
                      .text);
  EXPECT_EQ(wrong["index"], 0) << "the first is refused first";
  EXPECT_FALSE(wrong.contains("field")) << "no member of its body is wrong";
  const Json answer =
      Json::parse(batch(Json::array({edit("POST", "/v1/dvs", {{"name", "x"}, {"uplinks", 0}})})).text);
  EXPECT_EQ(answer["index"], 0);
  EXPECT_EQ(answer["field"], "uplinks");
  const Json own = Json::parse(batch(Json::array({{{"method", "GET"}, {"path", "/v1/vms"}}})).text);
  EXPECT_EQ(own["field"], "edits.0.method");
  EXPECT_FALSE(own.contains("index")) << "the batch itself is wrong";
}

TEST_F(BatchTest, ATokenForReadingMayNotEvenTry) {
  role_ = Role::kReadOnly;
  for (const bool dry_run : {false, true}) EXPECT_EQ(batch(whole_setup(), dry_run).status, 403);
  EXPECT_TRUE(inventory().switches.empty());
}

TEST_F(BatchTest, AnotherHostsEditInBetweenIsNotLost) {
  other_host_edits_before_the_commit();
  const Reply reply = batch(whole_setup());
  ASSERT_EQ(reply.status, 200) << reply.text;
  EXPECT_EQ(member_.plane->store_state().conflicts, 1U);
  EXPECT_EQ(Json::parse(reply.text)["answers"].size(), whole_setup().size()) << "those of the last try";
  EXPECT_EQ(Json::parse(reply.text)["changes"].size(), 3U) << "without the other host's";
  EXPECT_TRUE(inventory().switches.contains("Other"));
  EXPECT_TRUE(inventory().switches.contains("DSwitch"));
}

TEST_F(BatchTest, IsMadeOnTheRevisionThatItNamesOrNotAtAll) {
  const std::uint64_t now = inventory().revision;
  const Json edits = Json::array({edit("POST", "/v1/dvs", {{"name", "DSwitch"}})});
  for (const bool dry_run : {false, true}) {
    const Reply reply = batch(edits, dry_run, now - 1);
    EXPECT_EQ(reply.status, 409);
    EXPECT_THAT(reply.text, HasSubstr(fmt::format("since revision {}: it is at {} now", now - 1, now)));
    EXPECT_FALSE(Json::parse(reply.text).contains("index")) << "no edit is wrong";
  }
  EXPECT_TRUE(inventory().switches.empty());
  EXPECT_EQ(batch(edits, /*dry_run=*/false, now).status, 200);

  other_host_edits_before_the_commit();
  EXPECT_EQ(batch(whole_vm(), /*dry_run=*/false, now + 1).status, 409) << "it was right when it came";
  EXPECT_TRUE(inventory().switches.contains("Other"));
  EXPECT_TRUE(inventory().vms.empty());
}

TEST_F(BatchTest, ALostAnswerOfTheStoreIsToldAsSuch) {
  member_.store->lose_next_answer();
  const Reply reply = batch(whole_setup());
  EXPECT_EQ(reply.status, 503);
  EXPECT_THAT(reply.text, HasSubstr("the change may or may not have been made"));
  EXPECT_TRUE(inventory().vms.contains("VM-01")) << "all of it, here";
}

TEST_F(BatchTest, ADryRunIsRefusedWhereTheBatchWouldBe) {
  member_.cluster->put("config/vm/VM-01", "[of another version");
  for (const bool dry_run : {true, false}) {
    const Reply reply = batch(whole_vm(), dry_run);
    EXPECT_EQ(reply.status, 409) << dry_run;
    EXPECT_THAT(reply.text, HasSubstr("config/vm/VM-01")) << dry_run;
  }
  member_.store->go_away("connection refused");
  EXPECT_EQ(batch(whole_setup(), /*dry_run=*/true).status, 503);
}

TEST_F(BatchTest, EachRefusalHasTheStatusOfItsEdit) {
  const auto status = [&](const Json& one) { return batch(Json::array({one})).status; };
  EXPECT_EQ(status(edit("POST", "/v1/dvs", {{"name", "DSwitch"}, {"upliks", 1}})), 400);
  EXPECT_EQ(status(edit("POST", "/v1/dvs", {{"name", "a b"}})), 400);
  EXPECT_EQ(status(edit("DELETE", "/v1/hosts/esx-01")), 409) << "it is alive";
  EXPECT_EQ(status(edit("DELETE", "/v1/vms/VM-01?force=true")), 400) << "it has no such parameter";
  EXPECT_EQ(status(edit("POST", "/v1/vms",
                        {{"name", "VM-01"},
                         {"hardware_version", 14},
                         {"memory_mib", 512},
                         {"adapter", {{"portgroup", "x"}, {"owner", "no such user"}}}})),
            400)
      << "this host does not know the owner";
}

TEST_F(BatchTest, TakesOnlyEditsOfTheConfiguration) {
  for (const char* path : {"/v1/vms/VM-01/motion", "/v1/adapters/VM-01/capture", "/v1/faults", "/v1/batch",
                           "/v1/hca/check", "/v1/nothing", "", "/v1/vms/VM-01/qemu-args"}) {
    const Reply reply = batch(Json::array({edit("POST", path)}));
    EXPECT_EQ(reply.status, 400) << path;
    EXPECT_THAT(reply.text, HasSubstr("this is no edit of hosts, switches or VMs")) << path;
  }
  EXPECT_EQ(batch(Json::array({edit("GET", "/v1/vms")})).status, 400);
  EXPECT_EQ(batch(Json::array({edit("get", "/v1/vms")})).status, 400);
}

TEST_F(BatchTest, HasLimits) {
  Json edits = Json::array();
  EXPECT_EQ(batch(edits).status, 200) << "nothing to do";
  for (std::size_t i = 0; i <= kBatchEditsMax; ++i)
    edits.push_back(edit("POST", "/v1/dvs", {{"name", "dvs" + std::to_string(i)}}));
  EXPECT_EQ(batch(edits).status, 400);
  edits.erase(kBatchEditsMax);
  EXPECT_EQ(batch(edits).status, 200);
  EXPECT_EQ(inventory().switches.size(), kBatchEditsMax);
  EXPECT_EQ(batch(Json::array({edit("POST", "/v1/dvs", Json::array())})).status, 400)
      << "a body is an object";
  EXPECT_EQ(batch(Json::array({{{"method", "POST"}}})).status, 400) << "it has no path";
  const Reply long_path = batch(Json::array({edit("DELETE", ("/v1/vms/" + std::string(2000, 'x')).c_str())}));
  EXPECT_EQ(long_path.status, 414);
  EXPECT_LT(long_path.text.size(), 300U) << "a refusal shows the start of the path";
}

// Each edit of a switch is answered with all of it.
TEST_F(BatchTest, AnswersHaveALimitTogether) {
  ASSERT_EQ(batch(Json::array({edit("POST", "/v1/dvs", {{"name", "DSwitch"}})})).status, 200);
  Reply reply;
  for (std::size_t round = 0; round < 3; ++round) {
    Json edits = Json::array();
    for (std::size_t i = 0; i < kBatchEditsMax; ++i) {
      const std::string path =
          "/v1/dvs/DSwitch/portgroups/" + std::string(56, 'p') + std::to_string(round * kBatchEditsMax + i);
      edits.push_back(edit("PUT", path.c_str(), {{"vlan", 5}}));
    }
    reply = batch(edits);
    ASSERT_EQ(reply.status, 200) << reply.text;
  }
  const Json answers = Json::parse(reply.text)["answers"];
  EXPECT_EQ(answers.size(), kBatchEditsMax);
  EXPECT_EQ(answers.front()["name"], "DSwitch");
  EXPECT_TRUE(answers.back().is_null());
  EXPECT_LT(answers.dump().size(), kBatchAnswersBytesMax + 1000);
  EXPECT_EQ(inventory().switches.at("DSwitch").portgroups.size(), 3 * kBatchEditsMax) << "all are made";
}

TEST_F(BatchTest, IsRefusedWhileTheStoreIsAway) {
  member_.store->go_away("connection refused");
  EXPECT_EQ(batch(whole_setup()).status, 503);
  EXPECT_TRUE(inventory().switches.empty());
}

TEST(SplitQuery, TakesThePathAndTheDecodedParameters) {
  const auto split = [](std::string_view whole) {
    std::string path;
    std::multimap<std::string, std::string> query;
    split_query(whole, path, query);
    return std::pair(path, query);
  };
  using Query = std::multimap<std::string, std::string>;
  EXPECT_EQ(split("/v1/vms"), std::pair(std::string("/v1/vms"), Query{}));
  EXPECT_EQ(split("/a?b=c%2Fd&e&f=%zz%"),
            std::pair(std::string("/a"), (Query{{"b", "c/d"}, {"e", ""}, {"f", "%zz%"}})));
  EXPECT_EQ(split("/a%20b").first, "/a b");
  EXPECT_EQ(split("/a&b?"), std::pair(std::string("/a&b"), Query{{"", ""}}));
  EXPECT_EQ(split("").first, "");
}

TEST_F(BatchTest, LooksForEachOwnerOnce) {
  ApiParts parts = host_.parts(member_.plane.get());
  std::vector<std::string> looked;
  parts.find_owner = [&looked](const std::string& user, const std::string&) -> Result<SocketOwner> {
    looked.push_back(user);
    if (user == "nobody-here") return fail(ErrorKind::kInvalid, "this host has no user nobody-here");
    return SocketOwner{};
  };
  const Router router = make_router(parts);
  const auto send = [&router](const Json& edits) {
    Call call;
    call.method = "POST";
    call.path = "/v1/batch";
    call.body = Json{{"edits", edits}}.dump();
    return router.answer(call);
  };
  const auto vm = [](const std::string& name, const std::string& owner) {
    const Json adapter{{"portgroup", "DPortGroup"}, {"owner", owner}};
    return edit("POST", "/v1/vms",
                {{"name", name}, {"hardware_version", 14}, {"memory_mib", 512}, {"adapter", adapter}});
  };
  Json edits = whole_setup();
  edits.erase(9);
  for (int i = 0; i < 20; ++i) edits.push_back(vm("VM-1" + std::to_string(i), i % 2 == 0 ? "alice" : "bob"));
  const Reply reply = send(edits);
  ASSERT_EQ(reply.status, 200) << reply.text;
  EXPECT_EQ(looked, (std::vector<std::string>{"alice", "bob"}));
  EXPECT_EQ(inventory().vms.size(), 21U);

  const Json strangers = Json::array({vm("VM-31", "nobody-here"), vm("VM-32", "nobody-here")});
  EXPECT_THAT(send(strangers).text, HasSubstr("this host has no user nobody-here"));
  EXPECT_EQ(inventory().vms.size(), 21U);
}

TEST_F(BatchTest, ARulesetGetsItsWholeListInOneEdit) {
  Json networks = Json::array();
  for (int i = 0; i < 200; ++i) networks.push_back(fmt::format("10.1.{}.0/24", i));
  const Reply reply =
      batch(Json::array({edit("PATCH", "/v1/hosts/self/rulesets/pvrdma", {{"allowed", networks}})}));
  ASSERT_EQ(reply.status, 200) << reply.text;
  EXPECT_EQ(inventory().hosts.at("esx-01").pvrdma_ruleset.allowed.size(), 200U);
}

}  // namespace
}  // namespace pvrdma::api
