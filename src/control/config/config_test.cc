#include "control/config/config.h"

#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "base/cores.h"
#include "control/config/section.h"
#include "control/config/tables.h"

namespace pvrdma::control {
namespace {

constexpr const char* kVm01 = R"([[adapter]]
name = "VM-01"
socket = "/run/pvrdma/vm-01.sock"
mac = "52:54:00:12:34:51"
hardware_version = 14
)";

constexpr const char* kVm01Flag = "name=VM-01,socket=/a.sock,mac=52:54:00:12:34:51,hw=14";

// Each mistake is compared in full, because the sentence is all that an operator sees. FILE stands for the
// file's path.
class ConfigTest : public testing::Test {
 protected:
  Result<Config> load(const std::string& toml) {
    std::ofstream(path_) << toml;
    return load_config({.file = path_});
  }

  std::string mistake(const Result<Config>& config) {
    if (config) return "no mistake";
    std::string sentence = config.error().message;
    for (auto at = sentence.find(path_); at != std::string::npos; at = sentence.find(path_)) {
      sentence.replace(at, path_.size(), "FILE");
    }
    return sentence;
  }
  std::string mistake_in(const std::string& toml) { return mistake(load(toml)); }

  // The mistake in an adapter with one line replaced or added. Its five lines are 1 to 5.
  std::string mistake_with(const std::string& key, const std::string& line) {
    std::string toml;
    std::istringstream lines(kVm01);
    bool replaced = false;
    for (std::string each; std::getline(lines, each);) {
      const bool this_one = each.starts_with(key + " ");
      replaced = replaced || this_one;
      toml += (this_one ? line : each) + "\n";
    }
    return mistake_in(replaced ? toml : toml + line + "\n");
  }

  const std::string path_ = testing::TempDir() + "config_test_" +
                            testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                            std::to_string(::getpid()) + ".toml";
  void TearDown() override { std::remove(path_.c_str()); }
};

TEST_F(ConfigTest, ReadsAddressesAndTheSocketsOwner) {
  const auto config = load(kVm01 + std::string(R"(addresses = ["10.0.0.5", "fd00::5"]
owner = "root"
group = "12345"
)"));
  ASSERT_TRUE(config) << config.error().message;
  const AdapterConfig& adapter = config->adapters.at(0);
  EXPECT_EQ(adapter.addresses,
            (std::vector{IpAddress::parse("10.0.0.5").value(), IpAddress::parse("fd00::5").value()}));
  EXPECT_EQ(adapter.owner, (SocketOwner{.user = 0, .group = 12345}));
  EXPECT_EQ(mistake_with("owner", R"(owner = "no-such-user")"),
            "FILE:6: [[adapter]] owner = \"no-such-user\" cannot be the owner: this host has no user "
            "no-such-user: make it or name another");
  EXPECT_EQ(mistake_with("group", R"(group = "no-such-group")"),
            "FILE:6: [[adapter]] group = \"no-such-group\" cannot be the group: this host has no group "
            "no-such-group: make it or name another");
}

TEST_F(ConfigTest, ReadsEverythingThereIs) {
  const auto config = load(std::string(R"([daemon]
api_socket = "/tmp/api.sock"
log_level = "debug"
log_format = "json"
spin_us = 0
sandbox = false
)") + kVm01 + R"(roce = "v1"
[[adapter]]
name = "b.c_d-1"
socket = "b.sock"
mac = "02:00:00:00:AB:cd"
hardware_version = 18
doorbells = "trapped"
mtu = 9000
)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.api_socket, "/tmp/api.sock");
  EXPECT_EQ(config->daemon.log_level, log::Level::kDebug);
  EXPECT_EQ(config->daemon.log_format, log::Format::kJson);
  EXPECT_EQ(config->daemon.spin, Duration{0});
  EXPECT_FALSE(config->daemon.sandbox);
  ASSERT_EQ(config->adapters.size(), 2U);
  EXPECT_EQ(config->adapters[0].name, "VM-01");
  EXPECT_EQ(config->adapters[0].socket, "/run/pvrdma/vm-01.sock");
  EXPECT_EQ(config->adapters[0].mac, (Mac{{0x52, 0x54, 0, 0x12, 0x34, 0x51}}));
  EXPECT_EQ(config->adapters[0].hardware_version, HardwareVersion::k14);
  EXPECT_EQ(config->adapters[0].roce, RoceVersion::kV1);
  EXPECT_EQ(config->adapters[1].mac, (Mac{{2, 0, 0, 0, 0xab, 0xcd}}));
  EXPECT_EQ(config->adapters[0].doorbells, kDoorbellModeDefault);
  EXPECT_EQ(config->adapters[0].mtu, 1500);
  EXPECT_EQ(config->adapters[1].roce, RoceVersion::kV2);
  EXPECT_EQ(config->adapters[1].doorbells, DoorbellMode::kTrapped);
  EXPECT_EQ(config->adapters[1].mtu, 9000);
}

TEST_F(ConfigTest, HasDefaults) {
  const auto config = load(kVm01);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.api_socket, "/run/pvrdma/api.sock");
  EXPECT_EQ(config->daemon.log_level, log::Level::kInfo);
  EXPECT_EQ(config->daemon.log_format, std::nullopt);
  EXPECT_EQ(config->daemon.spin, std::chrono::microseconds(50));
  EXPECT_TRUE(config->daemon.sandbox);
  EXPECT_EQ(config->daemon.dedicated_core, std::nullopt);
  EXPECT_FALSE(config->daemon.fault_injection);
  EXPECT_EQ(config->adapters[0].roce, RoceVersion::kV2);
}

TEST_F(ConfigTest, HardwareVersion13DefaultsToRoceV1) {
  const auto config = load_config({.adapter_flags = {"name=a,socket=/a.sock,mac=52:54:00:12:34:51,hw=13"}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->adapters[0].roce, RoceVersion::kV1);
}

TEST_F(ConfigTest, AcceptsEveryHardwareVersionAndNoOther) {
  for (int version = 0; version < 30; ++version) {
    const bool exists = version >= 13 && version <= 21 && version != 16;
    const auto config = load_config(
        {.adapter_flags = {"name=a,socket=/a.sock,mac=52:54:00:12:34:51,hw=" + std::to_string(version)}});
    EXPECT_EQ(config.has_value(), exists) << version;
    if (config) {
      EXPECT_EQ(config->adapters[0].hardware_version, adapter_of(version)) << version;
    }
  }
}

TEST_F(ConfigTest, InjectsFaultsWhereTheFileOrTheFlagSaysSo) {
  EXPECT_TRUE(load(std::string("[daemon]\nfault_injection = true\n") + kVm01)->daemon.fault_injection);
  EXPECT_FALSE(load(std::string("[daemon]\nfault_injection = false\n") + kVm01)->daemon.fault_injection);
  const auto config = load_config(
      {.adapter_flags = {"name=a,socket=/a.sock,mac=52:54:00:12:34:51,hw=14"}, .fault_injection = true});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_TRUE(config->daemon.fault_injection);
}

TEST_F(ConfigTest, SpinsForEver) {
  const auto config = load(std::string("[daemon]\nspin_us = \"forever\"\n") + kVm01);
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.spin, Duration::max());
}

TEST_F(ConfigTest, BudgetsOfTheHostAreThoseOfEachAdapterThatHasNoneOfItsOwn) {
  const auto config = load(std::string(R"([budgets]
qps = 100
commands_per_s = 1000
total_registered_mib = 5
)") + kVm01 + R"(mrs = 7
qps = 50
[[adapter]]
name = "VM-02"
socket = "b.sock"
mac = "02:00:00:00:AB:cd"
hardware_version = 18
)");
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->budgets.each.qps, 100U);
  EXPECT_EQ(config->budgets.total.registered_mib, 5U);
  EXPECT_EQ(config->budgets.total.qps, TotalBudgets{}.qps);
  const Budgets& own = config->adapters[0].budgets;
  EXPECT_EQ(own.qps, 50U);
  EXPECT_EQ(own.mrs, 7U);
  EXPECT_EQ(own.commands_per_s, 1000U);
  EXPECT_EQ(own.rings_mib, Budgets{}.rings_mib);
  EXPECT_EQ(config->adapters[1].budgets, config->budgets.each);
}

TEST_F(ConfigTest, AFlagHasBudgetsToo) {
  const auto config = load_config({.adapter_flags = {std::string(kVm01Flag) + ",qps=64,mapped_mib=4096"}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->adapters[0].budgets.qps, 64U);
  EXPECT_EQ(config->adapters[0].budgets.mapped_mib, 4096U);
}

TEST_F(ConfigTest, RefusesBudgetsThatNobodyCouldLiveWith) {
  EXPECT_EQ(mistake_in("[budgets]\nqps = 3\n"),
            "FILE: there is nothing to serve: add an [[adapter]] or a [host] "
            "table to the file, or give --adapter");
  EXPECT_EQ(mistake_in(std::string("[budgets]\nqps = 3\n") + kVm01),
            "FILE:2: [budgets] qps = 3 is not allowed: it takes a number from 4 to 32768");
  EXPECT_EQ(
      mistake_in(std::string("[budgets]\ncommands_per_s = 10\n") + kVm01),
      "FILE:2: [budgets] commands_per_s = 10 is not allowed: it takes a number from 1000 to 1000000000");
  EXPECT_EQ(mistake_with("mrs", "mrs = \"many\""),
            "FILE:6: [[adapter]] mrs = \"many\" is not allowed: it takes a number from 1 to 262144");
  EXPECT_EQ(
      mistake_with("total_qps", "total_qps = 5"),
      "FILE:6: [[adapter]] unknown key total_qps: allowed are name, socket, mac, hardware_version, roce, "
      "profile, doorbells, mtu, addresses, owner, group, qps, cqs, srqs, mrs, registered_mib, rings_mib, "
      "mapped_mib, "
      "native_connections, commands_per_s, doorbells_per_s");
  EXPECT_EQ(
      mistake(load_config({.adapter_flags = {"name=a,socket=/a.sock,mac=52:54:00:12:34:51,hw=14,qps=x"}})),
      "--adapter name=a,socket=/a.sock,mac=52:54:00:12:34:51,hw=14,qps=x: qps = \"x\" is not allowed: it "
      "takes a number from 4 to 32768");
}

TEST_F(ConfigTest, NamesTheValueOfAListThatIsWrong) {
  EXPECT_EQ(mistake_with("addresses", "addresses = [\"10.0.0.5\", \"x\"]"),
            "FILE:6: [[adapter]] addresses: \"x\" is not an IP address: write it as 10.0.0.1 or fd00::1");
  EXPECT_EQ(mistake_with("addresses", "addresses = [5]"),
            "FILE:6: [[adapter]] addresses: 5 has the wrong type: it takes a string in quotes");
}

TEST_F(ConfigTest, ReadsTheLinkOfTheDaemonsOwnAdapters) {
  const auto config = load(
      kVm01 + std::string("[[roce]]\nlink = \"tap:pvroce0\"\npeers = [\"192.168.0.0/16\", \"fd00::5\"]\n"));
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->roce.size(), 1U);
  const RoceConfig& roce = config->roce[0];
  EXPECT_EQ(roce.link, (LinkName{LinkKind::kTap, "pvroce0"}));
  EXPECT_EQ(roce.dvs, "");
  EXPECT_EQ(roce.vlan, 0);
  EXPECT_EQ(roce.peers, (std::vector{*IpNetwork::parse("192.168.0.0/16"), *IpNetwork::parse("fd00::5")}));
  const auto by_flag = load_config({.adapter_flags = {kVm01Flag}, .roce_links = {"stream:/run/hub.sock"}});
  ASSERT_TRUE(by_flag) << by_flag.error().message;
  ASSERT_EQ(by_flag->roce.size(), 1U);
  EXPECT_EQ(by_flag->roce[0].link, (LinkName{LinkKind::kStream, "/run/hub.sock"}));
  EXPECT_TRUE(by_flag->roce[0].peers.empty());
  EXPECT_TRUE(load(kVm01)->roce.empty());
}

TEST_F(ConfigTest, RefusesLinksThatServeNobodyOrTheSame) {
  const auto with = [&](const std::string& lines) { return mistake_in(kVm01 + lines); };
  EXPECT_EQ(with("[[roce]]\n"), "FILE:6: [[roce]] lacks link: add link = \"tap:pvroce0\"");
  EXPECT_EQ(
      with("[[roce]]\nlink = \"eth0\"\n"),
      "FILE:7: [[roce]] link = \"eth0\" is not a RoCE link: write tap:DEVICE, xdp:DEVICE or stream:PATH");
  EXPECT_EQ(
      with("[[roce]]\nlink = \"tap:a\"\nswitch = \"DSwitch\"\n"),
      "FILE:8: [[roce]] switch = \"DSwitch\" is a switch, but this daemon is not in a cluster: leave it "
      "out for a link of this daemon's own adapters, or add a [host] table");
  EXPECT_EQ(with("[[roce]]\nlink = \"tap:a\"\nvlan = 5\n"),
            "FILE:8: [[roce]] vlan = 5 is a VLAN without a switch: add switch = \"DSwitch\" or leave it out");
  EXPECT_EQ(with("[[roce]]\nlink = \"tap:a\"\npeers = [\"x\"]\n"),
            "FILE:8: [[roce]] peers: \"x\" is not an IP network: write it as 10.0.0.0/24 or fd00::/64");
  EXPECT_EQ(with("[[roce]]\nlink = \"tap:a\"\ncolor = 1\n"),
            "FILE:8: [[roce]] unknown key color: allowed are link, switch, vlan, peers");
  EXPECT_EQ(
      with("[[roce]]\nlink = \"tap:a\"\n[[roce]]\nlink = \"tap:b\"\n"),
      "FILE:8: [[roce]] is the second link of its segment, which already has one at FILE:6: remove one");
  EXPECT_EQ(with("[roce]\nlink = \"tap:a\"\n"),
            "FILE:6: roce is a table: write [[roce]], once for each segment");
  const auto flagged = [&](const std::string& flag) {
    return mistake(load_config({.adapter_flags = {kVm01Flag}, .roce_links = {"tap:a", flag}}));
  };
  EXPECT_EQ(
      flagged("pvroce0"),
      "--roce-link: link = \"pvroce0\" is not a RoCE link: write tap:DEVICE, xdp:DEVICE or stream:PATH");
  EXPECT_EQ(
      flagged("tap:b"),
      "--roce-link tap:b: is the second link of its segment, which already has one at --roce-link tap:a: "
      "remove one");
}

TEST_F(ConfigTest, FlagsOverrideTheFileAndAddAdapters) {
  std::ofstream(path_) << "[daemon]\napi_socket = \"/file.sock\"\nlog_level = \"debug\"\n" << kVm01;
  const auto config = load_config(
      {.file = path_,
       .adapter_flags =
           {"name=VM-02,socket=/b.sock,mac=52:54:00:12:34:52,hw=17,roce=v1,doorbells=mapped,mtu=2200"},
       .api_socket = "/flag.sock",
       .log_level = "error",
       .log_format = "journal"});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.api_socket, "/flag.sock");
  EXPECT_EQ(config->daemon.log_level, log::Level::kError);
  EXPECT_EQ(config->daemon.log_format, log::Format::kJournal);
  ASSERT_EQ(config->adapters.size(), 2U);
  EXPECT_EQ(config->adapters[1].name, "VM-02");
  EXPECT_EQ(config->adapters[1].hardware_version, HardwareVersion::k17);
  EXPECT_EQ(config->adapters[1].roce, RoceVersion::kV1);
  EXPECT_EQ(config->adapters[1].doorbells, DoorbellMode::kMapped);
  EXPECT_EQ(config->adapters[1].mtu, 2200);
}

TEST_F(ConfigTest, TheFlagOverridesTheFilesDedicatedCore) {
  const std::uint32_t core = usable_cores().back();
  const auto config = load_config({.adapter_flags = {kVm01Flag}, .dedicated_core = core});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.dedicated_core, core);
  std::ofstream(path_) << "[daemon]\ndedicated_core = " << core << "\n" << kVm01;
  EXPECT_EQ(
      mistake(load_config({.file = path_, .dedicated_core = -1})),
      "--dedicated-core: [daemon] dedicated_core = -1 is not a core of this host that the daemon may use: "
      "allowed are " +
          describe_cores(usable_cores()));
}

TEST_F(ConfigTest, TheAdaptersMayHaveSeveralShards) {
  const auto with = [](const std::string& shards) { return "[daemon]\nshards = " + shards + "\n" + kVm01; };
  EXPECT_EQ(load(kVm01)->daemon.shards, 1U);
  EXPECT_EQ(load(with("4"))->daemon.shards, 4U);
  EXPECT_EQ(load_config({.adapter_flags = {kVm01Flag}, .shards = 2})->daemon.shards, 2U);
  EXPECT_EQ(mistake_in(with("0")),
            "FILE:2: [daemon] shards = 0 is not allowed: it takes a number from 1 to 16");
  EXPECT_EQ(mistake_in(with("17")),
            "FILE:2: [daemon] shards = 17 is not allowed: it takes a number from 1 to 16");
}

TEST_F(ConfigTest, SaysWhyThereIsOneShard) {
  EXPECT_EQ(why_one_shard(*load(kVm01)), "[daemon] shards is 1");
  EXPECT_EQ(why_one_shard(*load("[daemon]\nshards = 2\n" + std::string(kVm01))), "");
  EXPECT_EQ(why_one_shard(
                *load("[daemon]\ndedicated_core = " + std::to_string(usable_cores().back()) + "\n" + kVm01)),
            "a core is for one shard");
  EXPECT_EQ(why_one_shard(
                *load("[host]\nname = \"esx-01\"\n[store]\ntype = \"sqlite\"\npath = \"/tmp/store.db\"\n")),
            "a member of a cluster has one shard");
}

TEST_F(ConfigTest, RefusesSeveralShardsWhereOneIsNeeded) {
  const std::string shards = "[daemon]\nshards = 2\n";
  EXPECT_EQ(mistake_in(shards + "dedicated_core = " + std::to_string(usable_cores().back()) + "\n" + kVm01),
            "FILE:2: [daemon] shards = 2 is not possible with dedicated_core: a core is for one shard");
  EXPECT_EQ(mistake_in(shards +
                       "[host]\nname = \"esx-01\"\n[store]\ntype = \"sqlite\"\npath = \"/tmp/store.db\"\n"),
            "FILE:2: [daemon] shards = 2 is not possible with [host]: a member of a cluster has one shard");
  EXPECT_EQ(
      mistake_in(shards + kVm01 + "[[roce]]\nlink = \"stream:/tmp/link\"\n"),
      "FILE:2: [daemon] shards = 2 is not possible with [[roce]]: a host with RoCE links has one shard");
}

TEST_F(ConfigTest, RefusesAFileThatCannotBeRead) {
  EXPECT_EQ(mistake(load_config({.file = "/nowhere/x.toml"})),
            "cannot read the configuration /nowhere/x.toml: No such file or directory");
  EXPECT_EQ(mistake(load_config({.file = "/tmp"})), "cannot read the configuration /tmp: Is a directory");
}

TEST_F(ConfigTest, RefusesWhatIsNoToml) {
  EXPECT_EQ(mistake_in("[daemon]\nlog_level = info\n").substr(0, 26), "FILE:2: this is not TOML: ");
}

TEST_F(ConfigTest, RefusesAConfigurationWithoutAdapters) {
  EXPECT_EQ(
      mistake_in("[daemon]\n"),
      "FILE: there is nothing to serve: add an [[adapter]] or a [host] table to the file, or give --adapter");
}

TEST_F(ConfigTest, RefusesWhatDoesNotBelongAtTheTop) {
  EXPECT_EQ(mistake_in("name = \"VM-01\"\n"),
            "FILE:1: unknown key name at the top of the file: allowed are [daemon], [budgets], [host], "
            "[store], [tcp], "
            "[hca], [api], [[adapter]] and [[roce]]");
  EXPECT_EQ(mistake_in("\ndaemon = 1\n"), "FILE:2: daemon is an integer: write [daemon]");
  EXPECT_EQ(mistake_in("[adapter]\nname = \"a\"\n"),
            "FILE:1: adapter is a table: write [[adapter]], once for each adapter");
  EXPECT_EQ(mistake_in("adapter = [1]\n"),
            "FILE:1: adapter has an integer in it: write [[adapter]], once for each adapter");
}

TEST_F(ConfigTest, RefusesUnknownKeys) {
  EXPECT_EQ(
      mistake_in(std::string("[daemon]\nspin = 3\n") + kVm01),
      "FILE:2: [daemon] unknown key spin: allowed are api_socket, log_level, log_format, spin_us, sandbox, "
      "dedicated_core, shards, fault_injection");
  EXPECT_EQ(
      mistake_with("color", "color = 1"),
      "FILE:6: [[adapter]] unknown key color: allowed are name, socket, mac, hardware_version, roce, "
      "profile, doorbells, mtu, addresses, owner, group, qps, cqs, srqs, mrs, registered_mib, rings_mib, "
      "mapped_mib, "
      "native_connections, commands_per_s, doorbells_per_s");
}

TEST_F(ConfigTest, RefusesUnknownKeysOfAnyBytesAndLength) {
  const std::string allowed =
      ": allowed are api_socket, log_level, log_format, spin_us, sandbox, "
      "dedicated_core, shards, fault_injection";
  EXPECT_EQ(mistake_in(std::string("[daemon]\n\"gr\u00f6\u00dfe\" = 3\n") + kVm01),
            "FILE:2: [daemon] unknown key gr????e" + allowed);
  EXPECT_EQ(mistake_in("[daemon]\n" + std::string(100, 'a') + " = 3\n" + kVm01),
            "FILE:2: [daemon] unknown key " + std::string(64, 'a') + "…" + allowed);
}

TEST_F(ConfigTest, RefusesMissingKeys) {
  EXPECT_EQ(mistake_with("name", ""), "FILE:1: [[adapter]] lacks name: add name = \"VM-01\"");
  EXPECT_EQ(mistake_with("socket", ""),
            "FILE:1: [[adapter]] lacks socket: add socket = \"/run/pvrdma/vm-01.sock\"");
  EXPECT_EQ(mistake_with("mac", ""),
            "FILE:1: [[adapter]] lacks mac: add mac = \"52:54:00:12:34:51\", the VM's vmxnet3 adapter's");
  EXPECT_EQ(mistake_with("hardware_version", ""),
            "FILE:1: [[adapter]] lacks hardware_version: add hardware_version = 14");
}

TEST_F(ConfigTest, RefusesWrongTypes) {
  EXPECT_EQ(mistake_with("name", "name = 7"),
            "FILE:2: [[adapter]] name = 7 has the wrong type: it takes a string in quotes");
  EXPECT_EQ(mistake_with("socket", "socket = [\"a\"]"),
            "FILE:3: [[adapter]] socket = [\"a\"] has the wrong type: it takes a string in quotes");
  EXPECT_EQ(mistake_with("mac", "mac = true"),
            "FILE:4: [[adapter]] mac = (a boolean) has the wrong type: it takes a string in quotes");
  EXPECT_EQ(mistake_with("roce", "roce = 2"),
            "FILE:6: [[adapter]] roce = 2 has the wrong type: it takes a string in quotes");
}

TEST_F(ConfigTest, RefusesOtherDoorbellModes) {
  EXPECT_EQ(mistake_with("doorbells", "doorbells = \"polled\""),
            "FILE:6: [[adapter]] doorbells = \"polled\" is not a doorbell mode: allowed are trapped, mapped");
  EXPECT_EQ(mistake_with("doorbells", "doorbells = true"),
            "FILE:6: [[adapter]] doorbells = (a boolean) has the wrong type: it takes a string in quotes");
}

TEST_F(ConfigTest, RefusesBadNames) {
  EXPECT_EQ(
      mistake_with("name", "name = \"VM 01\""),
      "FILE:2: [[adapter]] name = \"VM 01\" is not a name: allowed are 1 to 64 letters, digits, '.', '_' "
      "and '-'");
  EXPECT_NE(mistake_with("name", "name = \"\""), "no mistake");
  EXPECT_NE(mistake_with("name", "name = \"a/b\""), "no mistake");
  EXPECT_EQ(mistake_with("name", "name = \"" + std::string(64, 'x') + "\""), "no mistake");
  EXPECT_NE(mistake_with("name", "name = \"" + std::string(65, 'x') + "\""), "no mistake");
}

TEST_F(ConfigTest, RefusesBadSocketPaths) {
  EXPECT_EQ(mistake_with("socket", "socket = \"\""),
            "FILE:3: [[adapter]] socket = \"\" is not a path: give the socket a file name");
  EXPECT_EQ(mistake_with("socket", "socket = \"/" + std::string(106, 'x') + "\""), "no mistake");
  const std::string path = "/" + std::string(107, 'x');
  EXPECT_EQ(mistake_with("socket", "socket = \"" + path + "\""),
            "FILE:3: [[adapter]] socket = \"" + path +
                "\" is too long: it has 108 bytes, and a UNIX socket's path has at most 107");
}

TEST_F(ConfigTest, RefusesBadMacs) {
  for (const std::string mac :
       {"", "52:54:00:12:34", "52:54:00:12:34:5", "52-54-00-12-34-51", "52:54:00:12:34:5g",
        "52:54:00:12:34:51:", "+2:54:00:12:34:51", "-2:54:00:12:34:51"}) {
    EXPECT_EQ(mistake_with("mac", "mac = \"" + mac + "\""),
              "FILE:4: [[adapter]] mac = \"" + mac +
                  "\" is not a MAC address: write six bytes such as 52:54:00:12:34:51");
  }
  EXPECT_EQ(
      mistake_with("mac", "mac = \"00:00:00:00:00:00\""),
      "FILE:4: [[adapter]] mac = \"00:00:00:00:00:00\" is the zero address: give the MAC of the VM's vmxnet3 "
      "adapter");
  EXPECT_EQ(mistake_with("mac", "mac = \"01:00:5e:00:00:01\""),
            "FILE:4: [[adapter]] mac = \"01:00:5e:00:00:01\" is a multicast address: give the MAC of the "
            "VM's vmxnet3 "
            "adapter, its first byte is even");
}

TEST_F(ConfigTest, RefusesBadHardwareVersions) {
  EXPECT_EQ(mistake_with("hardware_version", "hardware_version = 12"),
            "FILE:5: [[adapter]] hardware_version = 12 is not a hardware version with PVRDMA: allowed are 13 "
            "to 15, 17 to 21");
  EXPECT_EQ(
      mistake_with("hardware_version", "hardware_version = \"14\""),
      "FILE:5: [[adapter]] hardware_version = \"14\" is not a hardware version with PVRDMA: allowed are "
      "13 to 15, 17 to 21");
  // 2^32 + 14 must not be truncated.
  EXPECT_NE(mistake_with("hardware_version", "hardware_version = 4294967310"), "no mistake");
  EXPECT_NE(mistake_with("hardware_version", "hardware_version = -14"), "no mistake");
}

TEST_F(ConfigTest, RefusesBadRoceVersions) {
  EXPECT_EQ(mistake_with("roce", "roce = \"2\""),
            "FILE:6: [[adapter]] roce = \"2\" is not a RoCE version: allowed are v1, v2");
  EXPECT_EQ(mistake_with("hardware_version", "hardware_version = 13\nroce = \"v2\""),
            "FILE:6: [[adapter]] roce = \"v2\" needs hardware version 14 or later and this adapter has 13: "
            "use v1 or a "
            "later hardware version");
}

TEST_F(ConfigTest, RefusesBadDaemonSettings) {
  EXPECT_EQ(mistake_in(std::string("[daemon]\nlog_level = \"loud\"\n") + kVm01),
            "FILE:2: [daemon] log_level = \"loud\" is not a log level: allowed are debug, info, warn, error");
  const std::string spin_rule =
      " is not a spinning time: allowed are 0 to 1000000 microseconds, or \"forever\"";
  for (const std::string spin : {"-1", "1000001", "\"often\""}) {
    EXPECT_EQ(mistake_in("[daemon]\nspin_us = " + spin + "\n" + kVm01),
              "FILE:2: [daemon] spin_us = " + spin + spin_rule);
  }
}

TEST_F(ConfigTest, ADedicatedCoreIsOneThatTheDaemonMayUse) {
  const auto cores = usable_cores();
  ASSERT_FALSE(cores.empty());
  const auto with = [](const std::string& core) {
    return "[daemon]\ndedicated_core = " + core + "\n" + kVm01;
  };
  const auto config = load(with(std::to_string(cores.back())));
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->daemon.dedicated_core, cores.back());
  const std::string rule =
      " is not a core of this host that the daemon may use: allowed are " + describe_cores(cores);
  for (const std::string core : {"-1", "8191", "4294967296", "\"any\""}) {
    EXPECT_EQ(mistake_in(with(core)), "FILE:2: [daemon] dedicated_core = " + core + rule);
  }
}

TEST_F(ConfigTest, RefusesDuplicates) {
  const std::string second = R"([[adapter]]
name = "VM-02"
socket = "/run/pvrdma/vm-02.sock"
mac = "52:54:00:12:34:52"
hardware_version = 14
)";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = second;
    changed.replace(changed.find(from), from.size(), to);
    return mistake_in(kVm01 + changed);
  };
  EXPECT_EQ(mistake_in(kVm01 + second), "no mistake");
  EXPECT_EQ(with("VM-02", "VM-01"),
            "FILE:7: [[adapter]] name = \"VM-01\" is taken: the adapter at FILE:2 has it, choose another");
  EXPECT_EQ(with("/run/pvrdma/vm-02.sock", "/run/pvrdma/../pvrdma/vm-01.sock"),
            "FILE:8: [[adapter]] socket = \"/run/pvrdma/../pvrdma/vm-01.sock\" is taken: adapter VM-01 at "
            "FILE:3 has "
            "it, choose another");
  EXPECT_EQ(with("52:54:00:12:34:52", "52:54:00:12:34:51"),
            "FILE:9: [[adapter]] mac = \"52:54:00:12:34:51\" is taken: adapter VM-01 at FILE:4 has it, "
            "choose another");
  EXPECT_EQ(mistake_in(std::string("[daemon]\napi_socket = \"/run/pvrdma/vm-01.sock\"\n") + kVm01),
            "FILE:5: [[adapter]] socket = \"/run/pvrdma/vm-01.sock\" is taken: the API at FILE:2 has it, "
            "choose another");
}

TEST_F(ConfigTest, NamesTheFlagThatIsWrong) {
  EXPECT_EQ(
      mistake(load_config({.adapter_flags = {kVm01Flag}, .log_level = "loud"})),
      "--log-level: [daemon] log_level = \"loud\" is not a log level: allowed are debug, info, warn, error");
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"name=a,socket=/a,mac=52:54:00:12:34:51,hw=12"}})),
            "--adapter name=a,socket=/a,mac=52:54:00:12:34:51,hw=12: hw = 12 is not a hardware version with "
            "PVRDMA: "
            "allowed are 13 to 15, 17 to 21");
  EXPECT_EQ(
      mistake(load_config({.adapter_flags = {"name=a,socket=/a"}})),
      "--adapter name=a,socket=/a: lacks mac: add mac = \"52:54:00:12:34:51\", the VM's vmxnet3 adapter's");
  EXPECT_EQ(mistake(load_config({.adapter_flags = {kVm01Flag, kVm01Flag}})),
            std::string("--adapter ") + kVm01Flag + ": name = \"VM-01\" is taken: the adapter at --adapter " +
                kVm01Flag + " has it, choose another");
}

TEST_F(ConfigTest, CiServesAdaptersInOneFolder) {
  const auto config = load_config({.ci = CiSource{.adapters = 3, .folder = "/run/user/1000/pvrdma"}});
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->adapters.size(), 3U);
  EXPECT_EQ(config->adapters[2].name, "node2");
  EXPECT_EQ(config->adapters[2].socket, "/run/user/1000/pvrdma/node2.sock");
  EXPECT_EQ(config->adapters[2].mac, (Mac{0x52, 0x54, 0x00, 0xc1, 0x00, 0x02}));
  EXPECT_EQ(config->adapters[2].hardware_version, HardwareVersion::k18);
  EXPECT_EQ(config->daemon.api_socket, "/run/user/1000/pvrdma/api.sock");
  EXPECT_TRUE(config->daemon.fault_injection);
  EXPECT_EQ(config->daemon.spin, std::chrono::microseconds(20));
  EXPECT_EQ(config->daemon.idle_end, Duration(std::chrono::seconds(60)));
}

TEST_F(ConfigTest, RefusesBadCiFlags) {
  EXPECT_EQ(mistake(load_config({.ci = CiSource{.adapters = 0, .folder = "/tmp"}})),
            "--ci 0 is not a number of adapters: allowed are 1 to 64");
  EXPECT_EQ(mistake(load_config({.ci = CiSource{.adapters = 65, .folder = "/tmp"}})),
            "--ci 65 is not a number of adapters: allowed are 1 to 64");
  EXPECT_EQ(mistake(load_config({.ci = CiSource{.adapters = 1, .folder = "here"}})),
            "--runtime \"here\" is not an absolute path: --ci needs a folder for its sockets");
}

TEST_F(ConfigTest, TakesEachNumberOfTheTableByFlag) {
  std::vector<std::string_view> numbers;
  schema::for_each_field<AdapterTable>([&](const auto& field) {
    const std::string key(field.name);
    if (read_adapter_flag(key + "=14")->values[key].is_number()) numbers.push_back(field.name);
  });
  EXPECT_THAT(numbers, testing::ElementsAre("hardware_version", "mtu", "qps", "cqs", "srqs", "mrs",
                                            "registered_mib", "rings_mib", "mapped_mib", "native_connections",
                                            "commands_per_s", "doorbells_per_s"));
}

TEST_F(ConfigTest, RefusesFlagsThatAreNoKeysAndValues) {
  const std::string example = ": write name=VM-01,socket=PATH,mac=52:54:00:12:34:51,hw=14";
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"VM-01"}})),
            "--adapter VM-01: \"VM-01\" is not KEY=VALUE" + example);
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"name=a,"}})),
            "--adapter name=a,: \"\" is not KEY=VALUE" + example);
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"=a"}})),
            "--adapter =a: \"=a\" is not KEY=VALUE" + example);
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"name=a,name=b"}})),
            "--adapter name=a,name=b: name is given twice: give it once");
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"name=a,hw=14,hardware_version=14"}})),
            "--adapter name=a,hw=14,hardware_version=14: hardware_version is given twice: give it once");
  EXPECT_EQ(mistake(load_config({.adapter_flags = {"name=a,vlan=3"}})),
            "--adapter name=a,vlan=3: unknown key vlan: allowed are name, socket, mac, hardware_version, "
            "roce, profile, doorbells, mtu, addresses, owner, group, qps, cqs, srqs, mrs, registered_mib, "
            "rings_mib, "
            "mapped_mib, native_connections, commands_per_s, doorbells_per_s");
}

}  // namespace
}  // namespace pvrdma::control
