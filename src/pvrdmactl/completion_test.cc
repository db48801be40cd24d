#include "pvrdmactl/completion.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pvrdma::ctl {
namespace {

using Words = std::vector<std::string>;

class Completion : public testing::Test {
 protected:
  // The suggested words, and ":files".
  Words suggested(const Words& words) {
    const Suggestions found = suggest(grammar(), words, [this](const std::string& path) -> Result<Json> {
      asked_ += path;
      if (away_) return fail("the daemon cannot be reached");
      return Json::parse(answer_);
    });
    Words list;
    for (const Suggestion& each : found.words) list.push_back(each.word);
    if (found.files) list.emplace_back(":files");
    return list;
  }

  std::string answer_ = R"j([{"name":"esx-01"},{"name":"esx-02"},{"name":"$(rm x)"}])j";
  std::string asked_;
  bool away_ = false;
};

TEST_F(Completion, FollowsTheWords) {
  EXPECT_EQ(suggested({"r"}), Words{"rdma"});
  EXPECT_EQ(suggested({"rdma", "device", ""}), (Words{"protocol", "stats", "vmknic", "list"}));
  EXPECT_EQ(suggested({"--json", "-H", "vm", "rdma", "dev"}), Words{"device"});
  EXPECT_EQ(suggested({"rdma", "frob", ""}), Words{"device"});
  EXPECT_EQ(suggested({"vm", "list", ""}), Words{});
  EXPECT_EQ(suggested({}), Words{});
  EXPECT_EQ(asked_, "");
}

TEST_F(Completion, KnowsOptionsAndTheirValues) {
  const Words options = suggested({"rdma", "device", "stats", "get", "-"});
  EXPECT_EQ(Words(options.begin(), options.begin() + 4), (Words{"-d", "--device", "-H", "--host"}));
  EXPECT_EQ(std::ranges::count(options, "--json"), 1);
  EXPECT_EQ(std::ranges::count(options, "--manual"), 0) << "it is hidden";
  EXPECT_EQ(suggested({"vm", "create", "VM-01", "--protocol", ""}), (Words{"v1", "v2"}));
  EXPECT_EQ(suggested({"vm", "create", "VM-01", "--protocol=v"}), (Words{"--protocol=v1", "--protocol=v2"}));
  EXPECT_EQ(suggested({"vm", "create", "VM-01", "--protocol", "=", "v"}), (Words{"v1", "v2"})) << "bash";
  EXPECT_EQ(suggested({"vm", "create", "VM-01", "--protocol", "="}), (Words{"v1", "v2"})) << "bash";
  EXPECT_EQ(suggested({"adapter", "set", "VM-01", "--link", ""}), (Words{"up", "down"}));
  EXPECT_EQ(suggested({"--token-file", "tok"}), Words{":files"});
  EXPECT_EQ(suggested({"--frob=", ""}), suggested({""}));
}

TEST_F(Completion, AsksForNames) {
  EXPECT_EQ(suggested({"host", "get", "esx"}), (Words{"esx-01", "esx-02"}));
  EXPECT_EQ(suggested({"rdma", "device", "list", "--host=esx-02"}), Words{"--host=esx-02"});
  EXPECT_EQ(suggested({"-H", ""}), (Words{"esx-01", "esx-02"})) << "what is no name is left out";
  EXPECT_EQ(suggested({"vm", "migrate", "VM-01", "--to", ""}), (Words{"esx-01", "esx-02"}));
  asked_.clear();
  for (const Words& words : {Words{"vm", "get", ""}, {"adapter", "get", ""}, {"dvs", "get", ""}})
    suggested(words);
  EXPECT_EQ(asked_, "/v1/vms/v1/adapters/v1/dvs");
}

TEST_F(Completion, AsksForNoNameOfANewObject) {
  for (const Words& words :
       {Words{"vm", "create", ""}, {"dvs", "create", ""}, {"dvs", "portgroup", "add", "d", ""}}) {
    EXPECT_EQ(suggested(words), Words{});
  }
  EXPECT_EQ(asked_, "");
}

TEST_F(Completion, KnowsThePortGroupsOfTheGivenSwitch) {
  answer_ = R"([{"name":"a","portgroups":[{"name":"pg1"}]},{"name":"b","portgroups":[{"name":"pg2"}]}])";
  EXPECT_EQ(suggested({"dvs", "portgroup", "remove", "b", ""}), Words{"pg2"});
  EXPECT_EQ(suggested({"vm", "create", "v", "--dvs", "a", "--portgroup", ""}), Words{"pg1"});
  EXPECT_EQ(suggested({"vm", "create", "v", "--portgroup", ""}), (Words{"pg1", "pg2"}));
}

TEST_F(Completion, SaysNothingIfTheDaemonDoesNot) {
  away_ = true;
  EXPECT_EQ(suggested({"vm", "get", ""}), Words{});
  away_ = false;
  for (const char* answer : {"{}", "[7]", "7", "{\"error\":\"x\"}"}) {
    answer_ = answer;
    EXPECT_EQ(suggested({"vm", "get", ""}), Words{}) << answer;
  }
}

TEST_F(Completion, FindsTheDaemonToAsk) {
  const Words words{"--api", "/a.sock", "vm", "--server=https://h:1", "get", ""};
  EXPECT_EQ(given_globals(grammar(), words), (Values{{"api", "/a.sock"}, {"server", "https://h:1"}}));
}

TEST_F(Completion, WritesLinesForShells) {
  EXPECT_EQ(suggestion_lines({.words = {{"vm", "virtual machines"}, {"v1", ""}}, .files = true}),
            "vm\tvirtual machines\nv1\n:files\n");
}

}  // namespace
}  // namespace pvrdma::ctl
