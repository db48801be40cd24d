#include <gmock/gmock.h>

#include "base/cores.h"
#include "control/config/config_fixture.h"
#include "control/config/section.h"
#include "control/config/tables.h"

namespace pvrdma::control {
namespace {

TEST_F(ConfigTest, AFlagHasBudgetsToo) {
  const auto config = load_config({.adapter_flags = {std::string(kVm01Flag) + ",qps=64,mapped_mib=4096"}});
  ASSERT_TRUE(config) << config.error().message;
  EXPECT_EQ(config->adapters[0].budgets.qps, 64U);
  EXPECT_EQ(config->adapters[0].budgets.mapped_mib, 4096U);
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
                                            "registered_mib", "rings_mib", "mapped_mib", "mappings",
                                            "native_connections", "commands_per_s", "doorbells_per_s"));
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
            "mapped_mib, mappings, native_connections, commands_per_s, doorbells_per_s");
}

}  // namespace
}  // namespace pvrdma::control
