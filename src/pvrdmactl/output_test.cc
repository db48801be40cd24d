#include "pvrdmactl/output.h"

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

namespace pvrdma::ctl {
namespace {

const Command& command(const char* words) {
  return *grammar().command(words);
}

TEST(Output, IndentsJsonAndKeepsItsOrder) {
  EXPECT_EQ(show(command("stats"), {}, R"({"b":1,"a":[]})", Format::kApiJson).value(),
            "{\n  \"b\": 1,\n  \"a\": []\n}\n");
}

TEST(Output, WritesEsxclisForms) {
  const char* answer = R"({"version":"1.0"})";
  const Command& version = command("system version get");
  EXPECT_EQ(show(version, {}, answer, Format::kTableJson).value(),
            "{\n  \"Product\": \"pvrdmad\",\n  \"Version\": \"1.0\"\n}\n");
  EXPECT_EQ(show(version, {}, answer, Format::kCsv).value(), "Product,Version,\npvrdmad,1.0,\n");
  EXPECT_EQ(show(version, {}, answer, Format::kKeyValue).value(),
            "VersionGet.Product.string=pvrdmad\nVersionGet.Version.string=1.0\n");
  EXPECT_TRUE(show(version, {}, answer, Format::kXml).value().starts_with("<?xml"));
  const Command& change = command("network ip interface remove");
  for (const Format format : {Format::kCsv, Format::kTableJson, Format::kKeyValue, Format::kXml}) {
    EXPECT_EQ(show(change, {}, "{}", format).value(), "") << "a change prints nothing";
  }
  EXPECT_EQ(show(command("motion dump"), {}, R"({"text":"x"})", Format::kTableJson).value(),
            "{\n  \"text\": \"x\"\n}\n");
  EXPECT_EQ(show(version, {}, R"({"version":"a\nb\u001b"})", Format::kCsv).value(),
            "Product,Version,\npvrdmad,a\\u000ab\\u001b,\n")
      << "no value makes a line";
}

TEST(Output, RefusesWhatItDoesNotUnderstand) {
  for (const char* answer : {"", "[1]", "[{}]", "nonsense", "[{\"name\":7}]", "\xff", "7"}) {
    for (const char* words :
         {"adapter list", "vm list", "rdma device list", "system settings advanced list"}) {
      const auto text = show(command(words), {}, answer, Format::kText);
      ASSERT_FALSE(text) << words << " " << answer << " " << *text;
      EXPECT_TRUE(text.error().message.starts_with(
          "the daemon's answer is not what this pvrdmactl expects: are they of the same version? ("))
          << text.error().message;
    }
  }
}

TEST(Output, TakesTheDaemonsOwnSentenceForARefusal) {
  EXPECT_EQ(error_sentence(R"({"error":"there is no adapter x"})", 404), "there is no adapter x");
  EXPECT_EQ(error_sentence("<html>", 502), "the daemon answered with HTTP status 502");
  EXPECT_EQ(error_sentence(R"({"error":7})", 500), "the daemon answered with HTTP status 500");
}

TEST(Output, SaysMembersOfTheRequestAsTheUserTypedThem) {
  EXPECT_EQ(in_users_words(command("dvs create"),
                           "the body's \"uplinks\" must be a whole number from 1 to 32, not 99"),
            "--uplinks must be a whole number from 1 to 32, not 99");
  EXPECT_EQ(in_users_words(command("vm create"), "the body's \"adapter.mac\" must be a string, not 1"),
            "--mac must be a string, not 1");
  EXPECT_EQ(in_users_words(command("dvs create"), "the body's \"name\" must be a name"),
            "NAME must be a name");
  EXPECT_EQ(in_users_words(command("dvs list"), "there is no host"), "there is no host");
}

TEST(Output, SaysThatAListOfAddressesHasNoEffectYet) {
  const Command& add = command("network firewall ruleset allowedip add");
  EXPECT_EQ(
      note_of(add, R"({"name":"pvrdma","allow_all":true})"),
      "the ruleset pvrdma admits all addresses, so the list has no effect until pvrdmactl network firewall "
      "ruleset set -r pvrdma -a false");
  EXPECT_EQ(note_of(add, R"({"name":"pvrdma","allow_all":false})"), "");
  EXPECT_EQ(note_of(add, "[]"), "");
  EXPECT_EQ(note_of(command("vm list"), "[]"), "");
}

TEST(Output, LetsNoAnswerSteerTheTerminal) {
  const auto list = [](const std::string& name, Format format) {
    const std::string answer = R"({"portgroups":[{"name":")" + name +
                               R"(","vlan":7,"mtu":1500,"native_endpoints":false,"native_peers":[]}]})";
    return show(command("dvs portgroup list"), {}, answer, format).value();
  };
  EXPECT_EQ(list(R"(a\u001b[2J)", Format::kText),
            "Name        VLAN   MTU  Native Endpoints\n"
            "----------  ----  ----  ----------------\n"
            "a\\u001b[2J     7  1500  off\n");
  EXPECT_EQ(list(R"(b\n\u202e\u009b)", Format::kText),
            "Name                 VLAN   MTU  Native Endpoints\n"
            "-------------------  ----  ----  ----------------\n"
            "b\\u000a\\u202e\\u009b     7  1500  off\n")
      << "and forge no row";
  const std::string json = list(R"(b\n\u202e\u009b)", Format::kApiJson);
  EXPECT_NE(json.find(R"("b\n\u202e\u009b")"), std::string::npos) << json;
}

TEST(Output, ShowsTheLinesOfATextThatHasSeveral) {
  EXPECT_EQ(show(command("motion dump"), {}, R"({"text":"one\ntwo\u001b\n"})", Format::kText).value(),
            "one\ntwo\\u001b\n");
}

TEST(Output, CompletesAValueOnlyTheDaemonKnows) {
  std::string asked;
  const Get get = [&](const std::string& path) -> Result<std::string> {
    asked += path;
    return R"({"memory_mib": 2048})";
  };
  Values reserve{{"NAME", "VM-01"}, {"reserve", "all"}};
  ASSERT_TRUE(complete(command("vm set"), reserve, get));
  EXPECT_EQ(reserve.at("reserve"), "2048");
  EXPECT_EQ(asked, "/v1/vms/VM-01");

  asked.clear();
  Values grow{{"NAME", "VM-01"}, {"reserve", "all"}, {"memory", "4096"}};
  Values some{{"NAME", "VM-01"}, {"reserve", "7"}};
  Values none{{"NAME", "VM-01"}, {"memory", "1"}};
  for (Values* values : {&grow, &some, &none}) ASSERT_TRUE(complete(command("vm set"), *values, get));
  EXPECT_EQ(grow.at("reserve"), "4096");
  EXPECT_EQ(some.at("reserve"), "7");
  EXPECT_FALSE(none.contains("reserve"));
  EXPECT_EQ(asked, "");
}

TEST(Output, ReportsWhyAValueCouldNotBeCompleted) {
  Values values{{"NAME", "VM-01"}, {"reserve", "all"}};
  const auto refused = complete(command("vm set"), values, [](const std::string&) -> Result<std::string> {
    return fail("there is no VM");
  });
  EXPECT_EQ(refused.error().message, "there is no VM");
  for (const char* answer : {"{", "{}", R"({"memory_mib": "much"})"}) {
    EXPECT_FALSE(complete(command("vm set"), values, [&](const std::string&) -> Result<std::string> {
      return answer;
    })) << answer;
  }
}

}  // namespace
}  // namespace pvrdma::ctl
