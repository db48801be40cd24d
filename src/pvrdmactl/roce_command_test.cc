// The output of "dvs roce-rules", and its errors. tests/cluster/test_steering.py shows that the printed
// commands work.
#include <gtest/gtest.h>
#include <map>
#include <sstream>
#include <string>

#include "pvrdmactl/output.h"
#include "pvrdmactl/parser.h"

namespace pvrdma::ctl {
namespace {

constexpr const char* kDvs = R"({"name":"DSwitch","id":1,"portgroups":[
  {"name":"pg1","vlan":0,"mtu":1500,"native_endpoints":false,"native_peers":[]},
  {"name":"storage","vlan":105,"mtu":9000,"native_endpoints":true,"native_peers":[]},
  {"name":"storage2","vlan":105,"mtu":9000,"native_endpoints":true,"native_peers":[]}],
  "members":[{"host":"esx-01","uplinks":{}},{"host":"esx-02","uplinks":{}}]})";

std::string vm(const std::string& name, const std::string& host, const std::string& portgroup, int mac) {
  return R"({"name":")" + name + R"(","host":")" + host + R"(","adapter":{"dvs":"DSwitch","portgroup":")" +
         portgroup + R"(","mac":"52:54:00:00:00:0)" + std::to_string(mac) + R"("}})";
}

class RoceCommand : public testing::Test {
 protected:
  Result<std::string> run(const std::string& options) {
    std::istringstream line("dvs roce-rules DSwitch " + options);
    const std::vector<std::string> words{std::istream_iterator<std::string>(line), {}};
    const auto invocation = parse("pvrdmactl", words);
    if (!invocation) return Failure(invocation.error());
    const auto answer = compose(*invocation->command, invocation->values,
                                [this](const std::string& path) { return answers_.at(path); });
    if (!answer) return Failure(answer.error());
    return show(*invocation->command, invocation->values, *answer, Format::kText);
  }
  std::string printed(const std::string& options) {
    const auto text = run(options);
    return text ? *text : text.error().message;
  }

  std::map<std::string, Result<std::string>> answers_{
      {"/v1/dvs/DSwitch", kDvs},
      {"/v1/vms", "[" + vm("VM-01", "esx-01", "storage", 1) + "," + vm("VM-02", "esx-02", "storage", 2) +
                      "," + vm("VM-03", "esx-01", "pg1", 3) + "," + vm("VM-04", "esx-01", "storage2", 4) +
                      R"(,{"name":"VM-05","host":"esx-01","adapter":null}])"}};
  const std::string usual_ = "esx-01 --bridge br0 --taps VM-01=tap1,VM-04=vnet-4";
};

TEST_F(RoceCommand, PrintsTheRulesOfALinuxBridge) {
  const std::string head =
      "# As root. In the host's pvrdmad.toml:\n"
      "#   [[roce]]\n"
      "#   link = \"tap:pvroce0\"\n"
      "#   switch = \"DSwitch\"\n"
      "#   vlan = 105\n"
      "ip link show dev pvroce0 > /dev/null 2>&1 || ip tuntap add dev pvroce0 mode tap user pvrdma\n"
      "ip link set dev pvroce0 mtu 9000 txqueuelen 8192 addrgenmode none\n"
      "ip link set dev pvroce0 master br0\n"
      "bridge link set dev pvroce0 learning off flood off mcast_flood off bcast_flood off\n";
  const auto table = [](const std::string& tap) {
    return "nft -f - <<'END'\n"
           "table netdev pvrdma_" +
           tap +
           "\n"
           "delete table netdev pvrdma_" +
           tap +
           "\n"
           "table netdev pvrdma_" +
           tap +
           " {\n"
           "  chain to_guest {\n"
           "    type filter hook egress device \"" +
           tap +
           "\" priority filter; policy accept;\n"
           "    ether type 0x8915 fwd to \"pvroce0\"\n"
           "    udp dport 4791 fwd to \"pvroce0\"\n"
           "  }\n"
           "}\n"
           "END\n";
  };
  const std::string tail = "ip link set dev pvroce0 up\n" + table("tap1") + table("vnet-4");
  EXPECT_EQ(printed(usual_), head + tail);
  EXPECT_EQ(printed(usual_ + " --vlan-filtering"),
            head + "bridge vlan add dev pvroce0 vid 105 pvid untagged\n" + tail);
  EXPECT_EQ(printed(usual_ + " --port roce-1.5 --user daemon --remove"),
            "nft delete table netdev pvrdma_tap1\n"
            "nft delete table netdev pvrdma_vnet-4\n"
            "ip tuntap del dev roce-1.5 mode tap\n");
}

TEST_F(RoceCommand, PrintsTheRulesOfOpenVSwitch) {
  const std::string one = "esx-01 --bridge br0 --taps VM-01=tap1 --open-vswitch";
  EXPECT_EQ(printed(one + " --user daemon"),
            "# As root. In the host's pvrdmad.toml:\n"
            "#   [[roce]]\n"
            "#   link = \"tap:pvroce0\"\n"
            "#   switch = \"DSwitch\"\n"
            "#   vlan = 105\n"
            "ip link show dev pvroce0 > /dev/null 2>&1 || ip tuntap add dev pvroce0 mode tap user daemon\n"
            "ip link set dev pvroce0 mtu 9000 txqueuelen 8192 addrgenmode none\n"
            "ip link set dev pvroce0 up\n"
            "ovs-vsctl --may-exist add-port br0 pvroce0 tag=105\n"
            "ovs-ofctl mod-port br0 pvroce0 no-flood\n"
            "ovs-appctl fdb/add br0 tap1 105 52:54:00:00:00:01\n"
            "ovs-ofctl add-flow br0 "
            "\"priority=50000,udp,tp_dst=4791,dl_dst=52:54:00:00:00:01,actions=strip_vlan,output:pvroce0\"\n"
            "ovs-ofctl add-flow br0 "
            "\"priority=50000,udp6,tp_dst=4791,dl_dst=52:54:00:00:00:01,actions=strip_vlan,output:pvroce0\"\n"
            "ovs-ofctl add-flow br0 "
            "\"priority=50000,dl_type=0x8915,dl_dst=52:54:00:00:00:01,actions=strip_vlan,output:pvroce0\"\n");
  EXPECT_EQ(printed(one + " --remove"),
            "ovs-ofctl del-flows br0 \"udp,tp_dst=4791,dl_dst=52:54:00:00:00:01\"\n"
            "ovs-ofctl del-flows br0 \"udp6,tp_dst=4791,dl_dst=52:54:00:00:00:01\"\n"
            "ovs-ofctl del-flows br0 \"dl_type=0x8915,dl_dst=52:54:00:00:00:01\"\n"
            "ovs-appctl fdb/del br0 105 52:54:00:00:00:01\n"
            "ovs-vsctl del-port br0 pvroce0\n"
            "ip tuntap del dev pvroce0 mode tap\n");
}

TEST_F(RoceCommand, SaysWhatIsMissing) {
  EXPECT_EQ(printed("esx-01"),
            "pvrdmactl dvs roce-rules needs --bridge: see pvrdmactl dvs roce-rules --help");
  EXPECT_EQ(printed("esx-01 --bridge br0"),
            "dvs roce-rules needs --taps, each VM with the tap of its vmxnet3 adapter, as VM-01=tap1: the "
            "VMs of that "
            "host and network are VM-01, VM-04");
  EXPECT_EQ(printed("esx-02 --bridge br0 --taps VM-01=tap1"),
            "--taps: no VM \"VM-01\" of that host and network: there are VM-02");
  EXPECT_EQ(printed("esx-01 --bridge br0 --taps VM-01"),
            "--taps: \"VM-01\" is not a VM and its tap: write VM-01=tap1, with commas between");
  EXPECT_EQ(printed("esx-01 --bridge br0 --taps VM-01=$(reboot)"),
            "--taps: \"VM-01=$(reboot)\" is not a VM and its tap: write VM-01=tap1, with commas between");
  EXPECT_EQ(printed("esx-01 --bridge br0 --taps VM-01=tap1,VM-04=tap1"),
            "--taps: \"VM-01=tap1,VM-04=tap1\" has a VM or tap that is given twice: give each once");
  EXPECT_EQ(printed("esx-03 --bridge br0"),
            "host esx-03 is not a member of the distributed switch DSwitch: its members are esx-01, esx-02");
  EXPECT_EQ(
      printed("esx-01 --bridge a-very-long-name"),
      "--bridge: \"a-very-long-name\" is not a network device: it takes 1 to 15 letters, digits, '.', '_' "
      "and '-'");
  EXPECT_EQ(printed("esx-01 --bridge br0 --portgroup pg1"),
            "no port group pg1 of the distributed switch DSwitch allows native endpoints: pvrdmactl dvs "
            "portgroup set "
            "DSwitch pg1 --native-endpoints on");
  std::string& dvs = *answers_.at("/v1/dvs/DSwitch");
  dvs.replace(dvs.find("\"native_endpoints\":false"), 24, "\"native_endpoints\":true");
  EXPECT_EQ(printed("esx-01 --bridge br0"),
            "several networks of the distributed switch DSwitch allow native endpoints: say which with "
            "--portgroup: "
            "pg1, storage, storage2");
  EXPECT_EQ(run("esx-01 --bridge br0").error().kind, ErrorKind::kInvalid) << "pvrdmactl ends with 2";
  EXPECT_TRUE(printed("esx-01 --bridge br0 --portgroup pg1 --taps VM-03=tap3").ends_with("END\n"));
  std::string& vms = *answers_.at("/v1/vms");
  vms.replace(vms.find("52:54:00:00:00:03"), 17, "\\\"; reboot;       ");
  EXPECT_EQ(printed("esx-01 --bridge br0 --portgroup pg1 --taps VM-03=tap3"),
            "the daemon's answer has no MAC of VM VM-03");
}

}  // namespace
}  // namespace pvrdma::ctl
