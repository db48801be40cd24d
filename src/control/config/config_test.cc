#include "base/cores.h"
#include "control/config/config_fixture.h"

namespace pvrdma::control {
namespace {

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
      "mapped_mib, mappings, "
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

TEST_F(ConfigTest, TheAdaptersMayHaveSeveralShards) {
  const auto with = [](const std::string& shards) { return "[daemon]\nshards = " + shards + "\n" + kVm01; };
  EXPECT_EQ(load(kVm01)->daemon.shards, shards_for(usable_cores().size()));
  EXPECT_EQ(load(with("\"auto\""))->daemon.shards, shards_for(usable_cores().size()));
  EXPECT_EQ(load_config({.adapter_flags = {kVm01Flag}, .shards = "auto"})->daemon.shards,
            shards_for(usable_cores().size()));
  EXPECT_EQ(load(with("\"auto\"\nspin_us = \"forever\""))->daemon.shards, 1U);
  EXPECT_EQ(load(with("4"))->daemon.shards, 4U);
  EXPECT_EQ(load_config({.adapter_flags = {kVm01Flag}, .shards = "2"})->daemon.shards, 2U);
  EXPECT_EQ(mistake_in(with("0")),
            "FILE:2: [daemon] shards = 0 is not a number of shards: allowed are 1 to 16, or \"auto\"");
  EXPECT_EQ(mistake_in(with("17")),
            "FILE:2: [daemon] shards = 17 is not a number of shards: allowed are 1 to 16, or \"auto\"");
}

TEST_F(ConfigTest, SeveralShardsMayBeBalanced) {
  const auto with = [](const std::string& lines) { return "[daemon]\n" + lines + "\n" + kVm01; };
  EXPECT_FALSE(load(with("shards = 2"))->daemon.shard_balancing);
  EXPECT_TRUE(load(with("shards = 2\nshard_balancing = true"))->daemon.shard_balancing);
  EXPECT_TRUE(load_config({.adapter_flags = {kVm01Flag}, .shards = "2", .shard_balancing = true})
                  ->daemon.shard_balancing);
  EXPECT_FALSE(load(with("shard_balancing = false"))->daemon.shard_balancing);
  EXPECT_EQ(mistake_in(with("shard_balancing = true")),
            "FILE:2: [daemon] shard_balancing = true needs several shards: set shards to 2 or more");
  EXPECT_EQ(
      mistake_in(with("shards = 2\nspin_us = \"forever\"\nshard_balancing = true")),
      "FILE:4: [daemon] shard_balancing = true is not possible with spin_us = \"forever\": a shard that "
      "never sleeps always looks busy");
}

TEST_F(ConfigTest, ThereIsAWardWhereItIsPossible) {
  const auto with = [](const std::string& lines) { return "[daemon]\n" + lines + "\n" + kVm01; };
  EXPECT_TRUE(load(kVm01)->daemon.ward);
  EXPECT_EQ(load(with("shards = 4"))->daemon.shards, 4U) << "it does not count";
  EXPECT_TRUE(load(with("shards = 4"))->daemon.ward);
  EXPECT_FALSE(load(with("ward = false"))->daemon.ward);
  EXPECT_FALSE(load_config({.ci = CiSource{2, "/tmp"}})->daemon.ward);
  EXPECT_TRUE(load_config({.ci = CiSource{2, "/tmp"}, .ward = true})->daemon.ward);

  const std::string core = "dedicated_core = " + std::to_string(usable_cores().back());
  const std::string link = "[[roce]]\nlink = \"stream:/tmp/link\"\n";
  const std::string member =
      "[host]\nname = \"esx-01\"\n[store]\ntype = \"sqlite\"\npath = \"/tmp/store.db\"\n";
  EXPECT_FALSE(load(with(core))->daemon.ward);
  EXPECT_FALSE(load(with("spin_us = \"forever\""))->daemon.ward);
  EXPECT_FALSE(load(kVm01 + link)->daemon.ward);
  EXPECT_TRUE(load(member)->daemon.ward);
  EXPECT_TRUE(load(member + kVm01)->daemon.ward);
  EXPECT_EQ(mistake_in(with("ward = true\n" + core)),
            "FILE:2: [daemon] ward = true is not possible with dedicated_core: a core is for one shard");
  EXPECT_EQ(
      mistake_in(with("ward = true\nspin_us = \"forever\"")),
      "FILE:2: [daemon] ward = true is not possible with spin_us = \"forever\": the ward's thread would "
      "take a core, too");
  EXPECT_EQ(
      mistake_in(with("ward = true") + link),
      "FILE:2: [daemon] ward = true is not possible with a [[roce]] without switch: all of the daemon's "
      "own adapters would be on the shard of their link");
  EXPECT_FALSE(load("[daemon]\nspin_us = \"forever\"\n" + member)->daemon.ward);
}

TEST(ShardsFor, OneForEightCores) {
  EXPECT_EQ(shards_for(0), 1U);
  EXPECT_EQ(shards_for(15), 1U);
  EXPECT_EQ(shards_for(16), 2U);
  EXPECT_EQ(shards_for(63), 7U);
  EXPECT_EQ(shards_for(64), 8U);
  EXPECT_EQ(shards_for(256), 8U);
}

TEST_F(ConfigTest, SaysWhyThereIsOneShard) {
  EXPECT_EQ(why_one_shard(*load("[daemon]\nshards = 1\n" + std::string(kVm01))), "[daemon] shards is 1");
  if (const std::size_t cores = usable_cores().size(); shards_for(cores) == 1) {
    EXPECT_EQ(why_one_shard(*load(kVm01)),
              "[daemon] shards is \"auto\": a host has one shard for 8 cores, and this one has " +
                  std::to_string(cores));
  }
  EXPECT_EQ(
      why_one_shard(*load("[daemon]\nspin_us = \"forever\"\n" + std::string(kVm01))),
      "[daemon] shards is \"auto\", and spin_us is \"forever\": a shard would take a core even when idle");
  EXPECT_EQ(why_one_shard(*load("[daemon]\nshards = 2\n" + std::string(kVm01))), "");
  EXPECT_EQ(why_one_shard(
                *load("[daemon]\ndedicated_core = " + std::to_string(usable_cores().back()) + "\n" + kVm01)),
            "a core is for one shard");
  EXPECT_EQ(why_one_shard(*load(std::string(kVm01) + "[[roce]]\nlink = \"stream:/tmp/link\"\n")),
            "all of the daemon's own adapters would be on the shard of their link");
}

TEST_F(ConfigTest, RefusesSeveralShardsWhereOneIsNeeded) {
  const std::string shards = "[daemon]\nshards = 2\n";
  EXPECT_EQ(mistake_in(shards + "dedicated_core = " + std::to_string(usable_cores().back()) + "\n" + kVm01),
            "FILE:2: [daemon] shards = 2 is not possible with dedicated_core: a core is for one shard");
  EXPECT_EQ(mistake_in(shards + kVm01 + "[[roce]]\nlink = \"stream:/tmp/link\"\n"),
            "FILE:2: [daemon] shards = 2 is not possible with a [[roce]] without switch: all of the "
            "daemon's own adapters would be on the shard of their link");
  const std::string member =
      "[host]\nname = \"esx-01\"\n[store]\ntype = \"sqlite\"\npath = \"/tmp/store.db\"\n";
  EXPECT_NE(
      mistake_in(shards + member + kVm01 + "[[roce]]\nlink = \"stream:/tmp/link\"\n").find("without switch"),
      std::string::npos)
      << "a member's own adapters, too";
}

TEST(WhyNoHca, IsWhatTheConfigurationForbids) {
  EXPECT_EQ(why_no_hca({}), "");
  EXPECT_EQ(why_no_hca({.hca_enabled = false}), "[hca] enabled is false on this host");
  EXPECT_EQ(why_no_hca({.hca_require_encryption = true}),
            "[hca] require_encryption is true on this host, and nothing shows whether RDMA NICs encrypt");
}

TEST_F(ConfigTest, AMemberOfAClusterMayHaveSeveralShards) {
  const std::string member =
      "[host]\nname = \"esx-01\"\n[store]\ntype = \"sqlite\"\npath = \"/tmp/store.db\"\n";
  const std::string link = "[[roce]]\nlink = \"stream:/tmp/link\"\nswitch = \"dvs-01\"\nvlan = 14\n";
  EXPECT_EQ(load("[daemon]\nshards = 2\n" + member)->daemon.shards, 2U);
  EXPECT_TRUE(load("[daemon]\nshards = 2\nshard_balancing = true\n" + member)->daemon.shard_balancing);
  EXPECT_EQ(load("[daemon]\nshards = 2\n" + member + link)->daemon.shards, 2U);
}

}  // namespace
}  // namespace pvrdma::control
