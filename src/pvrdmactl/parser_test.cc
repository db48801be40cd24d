#include "pvrdmactl/parser.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>
#include <string>
#include <vector>

#include "pvrdmactl/completion.h"
#include "pvrdmactl/help.h"

namespace pvrdma::ctl {
namespace {

using Words = std::vector<std::string>;

Result<Invocation> parsed(const Words& words) {
  return parse("pvrdmactl", words);
}

std::string mistake(const Words& words) {
  const auto invocation = parsed(words);
  return invocation ? "no mistake" : invocation.error().message;
}

TEST(Parser, FindsTheCommandItsValuesAndTheGlobalOptions) {
  const auto invocation =
      parsed({"--json", "network", "firewall", "ruleset", "set", "-e", "true", "-r", "pvrdma"});
  ASSERT_TRUE(invocation) << invocation.error().message;
  EXPECT_EQ(invocation->command->words, "network firewall ruleset set");
  EXPECT_EQ(invocation->values, (Values{{"enabled", "true"}, {"ruleset-id", "pvrdma"}, {"host", "self"}}));
  EXPECT_EQ(invocation->globals, (Values{{"json", "true"}}));
}

TEST(Parser, TakesEachWayToWriteAnOption) {
  const Values expected{{"enabled", "true"}, {"ruleset-id", "pvrdma"}, {"host", "esx-02"}};
  for (const Words& options :
       {Words{"-e", "1", "-r", "pvrdma", "-H", "esx-02"}, Words{"-eyes", "-rpvrdma", "-Hesx-02"},
        Words{"--enabled=true", "--ruleset-id=pvrdma", "--host=esx-02"},
        Words{"--enabled", "true", "--ruleset-id", "pvrdma", "--host", "esx-02"}}) {
    Words words{"network", "firewall", "ruleset", "set"};
    words.insert(words.end(), options.begin(), options.end());
    const auto invocation = parsed(words);
    ASSERT_TRUE(invocation) << invocation.error().message;
    EXPECT_EQ(invocation->values, expected);
  }
}

TEST(Parser, TakesGlobalOptionsAndTheHostAnywhere) {
  for (const Words& words : {Words{"-H", "b", "--api", "/s", "network", "nic", "list"},
                             Words{"network", "--api=/s", "nic", "-H", "b", "list"},
                             Words{"network", "nic", "list", "--host", "b", "--api", "/s"}}) {
    const auto invocation = parsed(words);
    ASSERT_TRUE(invocation) << invocation.error().message;
    EXPECT_EQ(invocation->command->words, "network nic list");
    EXPECT_EQ(invocation->values.at("host"), "b");
    EXPECT_EQ(invocation->globals.at("api"), "/s");
  }
  EXPECT_EQ(parsed({"--host", "b", "vm", "create", "x", "--hw", "14", "--memory", "1"})->values.at("host"),
            "b");
}

TEST(Parser, PutsACommandsOwnOptionBeforeAGlobalOne) {
  const auto own = parsed({"dvs", "create", "d", "--version", "6.5.0"});
  ASSERT_TRUE(own) << own.error().message;
  EXPECT_EQ(own->values.at("version"), "6.5.0");
  const std::string help = parsed({"dvs", "create", "--help"})->text;
  EXPECT_EQ(help.find("--version"), help.rfind("--version")) << help;
  EXPECT_TRUE(parsed({"--version", "dvs", "create"})->text.starts_with("pvrdmactl "));
}

TEST(Parser, TakesWordsThatLookLikeOptionsAfterTwoDashes) {
  EXPECT_EQ(parsed({"vm", "get", "--", "-x"})->values.at("NAME"), "-x");
}

TEST(Parser, NamesTheMistakeAndTheWayToHelp) {
  EXPECT_EQ(mistake({"frob"}), "there is no command \"pvrdmactl frob\": see pvrdmactl --help");
  EXPECT_EQ(mistake({"rdma", "device", "frob"}),
            "there is no command \"pvrdmactl rdma device frob\": see pvrdmactl rdma device --help");
  EXPECT_EQ(mistake({"\x1b[31m"}), "there is no command \"pvrdmactl ...\": see pvrdmactl --help");
  EXPECT_EQ(mistake({"adapter", "get"}),
            "pvrdmactl adapter get needs NAME: see pvrdmactl adapter get --help");
  EXPECT_EQ(mistake({"adapter", "list", "x"}),
            "pvrdmactl adapter list takes no \"x\": see pvrdmactl adapter list --help");
  EXPECT_EQ(mistake({"adapter", "list", "--frob"}),
            "\"--frob\" is not an option of pvrdmactl adapter list: see pvrdmactl adapter list --help");
  EXPECT_EQ(mistake({"adapter", "list", "-q"}),
            "\"-q\" is not an option of pvrdmactl adapter list: see pvrdmactl adapter list --help");
  EXPECT_EQ(mistake({"--host", "b", "vm", "list"}),
            "\"--host\" is not an option of pvrdmactl vm list: see pvrdmactl vm list --help");
  EXPECT_EQ(mistake({"rdma", "device", "stats", "get", "-d"}),
            "-d needs a value: see pvrdmactl rdma device stats get --help");
  EXPECT_EQ(mistake({"rdma", "device", "stats", "get", "-d", "a", "-d", "b"}),
            "--device is given twice: see pvrdmactl rdma device stats get --help");
  EXPECT_EQ(mistake({"version", "--json=1"}), "--json takes no value: see pvrdmactl version --help");
}

TEST(Parser, ChecksValues) {
  const auto refused = [](const Words& words) {
    const std::string sentence = mistake(words);
    return sentence.substr(0, sentence.rfind(": see "));
  };
  for (const std::string name : {"a/../b", "..", ".", "", "a b", "a?b", "ä"}) {
    EXPECT_TRUE(refused({"vm", "get", name})
                    .ends_with("is not a name: it takes 1 to 64 letters, digits, '.', '_' and '-'"))
        << name;
  }
  EXPECT_TRUE(parsed({"vm", "get", std::string(64, 'x')}));
  EXPECT_FALSE(parsed({"vm", "get", std::string(65, 'x')}));
  EXPECT_EQ(refused({"vm", "upgrade", "a", "--hw", "14x"}),
            "--hw: \"14x\" is not a number from 0 to 4294967295");
  EXPECT_EQ(refused({"vm", "upgrade", "a", "--hw", "-1"}),
            "--hw: \"-1\" is not a number from 0 to 4294967295");
  EXPECT_EQ(refused({"vm", "upgrade", "a", "--hw", "4294967296"}),
            "--hw: \"4294967296\" is not a number from 0 to 4294967295");
  EXPECT_EQ(refused({"vm", "set", "a", "--reserve", "most"}),
            "--reserve: \"most\" is neither a number of MiB nor \"all\"");
  EXPECT_EQ(refused({"vm", "set", "a", "--protocol", "v3"}),
            "--protocol: \"v3\" is not allowed: it takes v1, v2");
  EXPECT_EQ(refused({"adapter", "set", "a", "--link", "left"}), "--link: \"left\" is neither up nor down");
  EXPECT_EQ(refused({"network", "firewall", "ruleset", "set", "-r", "pvrdma", "-e", "maybe"}),
            "--enabled: \"maybe\" is neither true nor false");
  EXPECT_EQ(refused({"system", "settings", "advanced", "set", "-o", "/a", "-s", "\xff"}),
            "--string-value: \"...\" is not printable ASCII");
}

TEST(Parser, ChecksWhatBelongsTogether) {
  const Words set{"system", "settings", "advanced", "set", "-o", "/Net/PVRDMAVmknic"};
  EXPECT_EQ(mistake(set),
            "pvrdmactl system settings advanced set needs --default or --string-value: see pvrdmactl "
            "system settings advanced set --help");
  Words both = set;
  both.insert(both.end(), {"-d", "-s", "vmk2"});
  EXPECT_EQ(mistake(both),
            "give only one of --default or --string-value: see pvrdmactl system settings advanced set "
            "--help");
  EXPECT_EQ(mistake({"dvs", "uplink", "set", "d", "h", "uplink1"}),
            "pvrdmactl dvs uplink set needs VMNIC or --none: see pvrdmactl dvs uplink set --help");
  EXPECT_EQ(mistake({"dvs", "uplink", "set", "d", "h", "uplink1", "vmnic0", "--none"}),
            "give only one of VMNIC or --none: see pvrdmactl dvs uplink set --help");
  EXPECT_EQ(mistake({"vm", "create", "a", "--hw", "14", "--memory", "512", "--mac", "x"}),
            "--mac needs --portgroup too: see pvrdmactl vm create --help");
  EXPECT_EQ(mistake({"vm", "set", "a"}),
            "pvrdmactl vm set has nothing to change, give at least one of --host, --memory, --reserve, "
            "--portgroup, "
            "--dvs, --protocol, --doorbells, --addresses, --owner, --group: see pvrdmactl vm set --help");
  EXPECT_EQ(
      mistake({"network", "firewall", "ruleset", "set", "-r", "pvrdma"}),
      "pvrdmactl network firewall ruleset set has nothing to change, give at least one of --allowed-all, "
      "--enabled: see pvrdmactl network firewall ruleset set --help");
}

TEST(Parser, ListsWhatANamespaceHasWhenTheCommandIsMissing) {
  const auto invocation = parse("esxcli", Words{"rdma", "device"});
  ASSERT_TRUE(invocation);
  EXPECT_TRUE(invocation->incomplete);
  EXPECT_EQ(invocation->command, nullptr);
  EXPECT_EQ(invocation->text,
            "Usage: esxcli [options] rdma device {cmd} [cmd options]\n"
            "\n"
            "Available Namespaces:\n"
            "  protocol              protocols that an RDMA device speaks\n"
            "  stats                 counters of an RDMA device\n"
            "  vmknic                VMkernel adapters that use an RDMA device\n"
            "\n"
            "Available Commands:\n"
            "  list                  list the host's RDMA devices\n");
  EXPECT_TRUE(parsed({})->incomplete);
}

TEST(Parser, PrintsHelpWhateverElseIsMissing) {
  const auto invocation = parsed({"rdma", "device", "stats", "get", "-h"});
  ASSERT_TRUE(invocation);
  EXPECT_FALSE(invocation->incomplete);
  EXPECT_TRUE(
      invocation->text.starts_with("Usage: pvrdmactl rdma device stats get [cmd options]\n"
                                   "\n"
                                   "Description:\n"
                                   "  show the counters of one RDMA device\n"
                                   "\n"
                                   "Cmd options:\n"
                                   "  -d|--device=<str>     the device, vmrdma0 (required)\n"
                                   "  -H|--host=<str>       the host; default: the daemon's own\n"
                                   "\n"
                                   "Options:\n"
                                   "  --api=<socket>        the daemon's API socket\n"))
      << invocation->text;
  EXPECT_TRUE(parsed({"host", "get", "--help"})
                  ->text.starts_with("Usage: pvrdmactl host get [NAME] [cmd options]\n"));
  EXPECT_NE(parsed({"--help"})->text.find("\nExit codes: "), std::string::npos);
  EXPECT_EQ(parsed({"--version"})->text, "pvrdmactl " PVRDMA_VERSION "\n");
  for (const std::string shell : {"bash", "fish", "zsh"}) {
    EXPECT_EQ(parsed({"--completion", shell})->text, completion_script(shell));
  }
}

// Finds mistakes in the table itself, which no test of a single command would show.
TEST(Grammar, IsConsistent) {
  std::set<std::string> words;
  for (const Command& command : grammar().commands) {
    SCOPED_TRACE(command.words);
    EXPECT_TRUE(words.insert(command.words).second) << "twice";
    EXPECT_EQ(grammar().name_space(command.words), nullptr) << "both a command and a namespace";
    EXPECT_FALSE(command.help.empty());
    for (auto space = command.words.rfind(' '); space != std::string::npos && space != 0;
         space = command.words.rfind(' ', space - 1)) {
      EXPECT_NE(grammar().name_space(command.words.substr(0, space)), nullptr)
          << command.words.substr(0, space);
    }
    std::set<std::string> names;
    std::set<char> letters{'h'};
    for (const Argument& argument : command.arguments) {
      SCOPED_TRACE(argument.name);
      EXPECT_TRUE(names.insert(argument.name).second) << "twice";
      EXPECT_TRUE(argument.letter == 0 || letters.insert(argument.letter).second) << "a letter twice";
      const bool in_path = command.path.find("{" + argument.name + "}") != std::string::npos;
      // make_request() puts it into the path.
      const bool is_other_host = argument.name == other_host().name && command.method == Method::kGet &&
                                 command.path.starts_with("/v1/");
      EXPECT_TRUE(in_path || is_other_host || !argument.member.empty() || command.select != nullptr ||
                  command.compose != nullptr || command.transfer != Transfer::kNone || argument.unused)
          << "used nowhere";
      EXPECT_EQ(argument.choices.empty(), argument.kind != Kind::kChoice);
      EXPECT_TRUE(argument.needs.empty() || find_argument(command.arguments, argument.needs) != nullptr);
      // Several arguments may be alternatives, which complete() combines.
      EXPECT_TRUE(argument.member.empty() || command.complete != nullptr ||
                  (command.method != Method::kGet && command.method != Method::kDelete))
          << "a body nobody sends";
      // A value between slashes must not lead to another path.
      if (in_path && command.path.find("{" + argument.name + "}") < command.path.find('?')) {
        EXPECT_EQ(argument.kind, Kind::kName);
        EXPECT_TRUE(argument.required || !argument.fallback.empty());
      }
    }
  }
  for (const Namespace& name : grammar().namespaces) {
    EXPECT_TRUE(std::ranges::any_of(
        grammar().commands,
        [&](const Command& command) { return command.words.starts_with(name.words + " "); }))
        << name.words << " is empty";
  }
}

}  // namespace
}  // namespace pvrdma::ctl
