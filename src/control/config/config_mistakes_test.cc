#include "base/cores.h"
#include "control/config/config_fixture.h"

namespace pvrdma::control {
namespace {

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
      "dedicated_core, shards, shard_balancing, ward, fault_injection");
  EXPECT_EQ(
      mistake_with("color", "color = 1"),
      "FILE:6: [[adapter]] unknown key color: allowed are name, socket, mac, hardware_version, roce, "
      "profile, doorbells, mtu, addresses, owner, group, qps, cqs, srqs, mrs, registered_mib, rings_mib, "
      "mapped_mib, mappings, "
      "native_connections, commands_per_s, doorbells_per_s");
}

TEST_F(ConfigTest, RefusesUnknownKeysOfAnyBytesAndLength) {
  const std::string allowed =
      ": allowed are api_socket, log_level, log_format, spin_us, sandbox, "
      "dedicated_core, shards, shard_balancing, ward, fault_injection";
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
            "FILE:4: [[adapter]] mac = true has the wrong type: it takes a string in quotes");
  EXPECT_EQ(mistake_with("roce", "roce = 2"),
            "FILE:6: [[adapter]] roce = 2 has the wrong type: it takes a string in quotes");
}

TEST_F(ConfigTest, RefusesOtherDoorbellModes) {
  EXPECT_EQ(mistake_with("doorbells", "doorbells = \"polled\""),
            "FILE:6: [[adapter]] doorbells = \"polled\" is not a doorbell mode: allowed are trapped, mapped");
  EXPECT_EQ(mistake_with("doorbells", "doorbells = true"),
            "FILE:6: [[adapter]] doorbells = true has the wrong type: it takes a string in quotes");
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

}  // namespace
}  // namespace pvrdma::control
