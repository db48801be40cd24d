// The commands that esxcli has, too: the request of each, and the text of an answer.
#include <gtest/gtest.h>
#include <string>

#include "pvrdmactl/commands_fixture.h"

namespace pvrdma::ctl {
namespace {

// --- rdma ---

TEST(RdmaCommands, AskTheHost) {
  for (const std::string words :
       {"rdma device list", "rdma device protocol list", "rdma device vmknic list"}) {
    EXPECT_EQ(asked(words), "GET /v1/hosts/self");
    EXPECT_EQ(asked(words + " -H esx-02"), "GET /v1/hosts/esx-02");
  }
  EXPECT_EQ(asked("rdma device stats get -d vmrdma0"), "GET /v1/hosts/self/rdma/vmrdma0/stats");
}

TEST(RdmaCommands, ListDevices) {
  EXPECT_EQ(shown("rdma device list", kHost),
            "Name     Driver   State    MTU  Speed     Paired Uplink  Description\n"
            "-------  -------  ------  ----  --------  -------------  ---------------------------\n"
            "vmrdma0  mlx5_ib  Active  4096  100 Gbps  vmnic0         MT27800 Family [ConnectX-5]\n"
            "vmrdma1  siw      Down    1024  0         -\n");
}

TEST(RdmaCommands, WriteSpeedsAsEsxcliDoes) {
  const auto speed = [](int mbps) {
    Json host = Json::parse(kHost);
    host["rdma_devices"][0]["speed_mbps"] = mbps;
    return shown("rdma device list", host.dump());
  };
  EXPECT_NE(speed(2500).find("  2.5 Gbps  "), std::string::npos);
  EXPECT_NE(speed(400000).find("  400 Gbps  "), std::string::npos);
  EXPECT_NE(speed(100).find("  100 Mbps  "), std::string::npos);
  EXPECT_NE(speed(0).find("  0      vmnic0  "), std::string::npos) << speed(0);
}

TEST(RdmaCommands, ListProtocols) {
  EXPECT_EQ(shown("rdma device protocol list", kHost),
            "Device   RoCE v1  RoCE v2  iWARP\n"
            "-------  -------  -------  -----\n"
            "vmrdma0     true     true  false\n"
            "vmrdma1    false    false   true\n");
}

TEST(RdmaCommands, ListVmknicsOfTheDevicesThatHaveOne) {
  EXPECT_EQ(shown("rdma device vmknic list", kHost),
            "Device   Vmknic  NetStack\n"
            "-------  ------  -----------------\n"
            "vmrdma0  vmk2    defaultTcpipStack\n");
}

TEST(RdmaCommands, ShowCounters) {
  EXPECT_EQ(shown("rdma device stats get -d vmrdma0",
                  R"({"device":"vmrdma0","stats":{"port_rcv_packets":7,"port_xmit_packets":0}})"),
            "   port_rcv_packets: 7\n"
            "   port_xmit_packets: 0\n");
}

TEST(RdmaCommands, PrintTheShownPartAsJson) {
  const Json devices = Json::parse(shown("rdma device list --json", kHost, Format::kApiJson));
  EXPECT_EQ(devices, Json::parse(kHost).at("rdma_devices"));
}

// --- network ---

TEST(NetworkCommands, AskTheHost) {
  EXPECT_EQ(asked("network nic list"), "GET /v1/hosts/self");
  EXPECT_EQ(asked("network ip interface list --host esx-02"), "GET /v1/hosts/esx-02");
  EXPECT_EQ(asked("network ip interface add -i vmk2 --address 10.0.0.1"),
            R"(POST /v1/hosts/self/vmks {"name":"vmk2","address":"10.0.0.1"})");
  EXPECT_EQ(asked("network ip interface add --interface-name vmk3 --address fd00::1 -H esx-02"),
            R"(POST /v1/hosts/esx-02/vmks {"name":"vmk3","address":"fd00::1"})");
  EXPECT_EQ(asked("network ip interface remove -i vmk2"), "DELETE /v1/hosts/self/vmks/vmk2");
}

TEST(NetworkCommands, AskForRulesets) {
  const std::string ruleset = "network firewall ruleset ";
  EXPECT_EQ(asked(ruleset + "list"), "GET /v1/hosts/self/rulesets");
  EXPECT_EQ(asked(ruleset + "set -e true -r pvrdma"),
            R"(PATCH /v1/hosts/self/rulesets/pvrdma {"enabled":true})");
  EXPECT_EQ(asked(ruleset + "set --enabled=false --allowed-all=true --ruleset-id=pvrdma"),
            R"(PATCH /v1/hosts/self/rulesets/pvrdma {"allow_all":true,"enabled":false})");
  EXPECT_EQ(asked(ruleset + "set -a false -r pvrdma"),
            R"(PATCH /v1/hosts/self/rulesets/pvrdma {"allow_all":false})");
  EXPECT_EQ(asked(ruleset + "rule list -r pvrdma"), "GET /v1/hosts/self/rulesets/pvrdma/rules");
  EXPECT_EQ(asked(ruleset + "rule list"), "GET /v1/hosts/self/rulesets/pvrdma/rules");
  EXPECT_EQ(asked(ruleset + "allowedip add -r pvrdma -i 10.0.0.0/24"),
            R"(POST /v1/hosts/self/rulesets/pvrdma/allowed {"network":"10.0.0.0/24"})");
  EXPECT_EQ(asked(ruleset + "allowedip remove --ruleset-id pvrdma --ip-address fd00::/64"),
            "DELETE /v1/hosts/self/rulesets/pvrdma/allowed?network=fd00%3A%3A%2F64");
  EXPECT_EQ(asked(ruleset + "allowedip list -r pvrdma"), "GET /v1/hosts/self/rulesets");
}

TEST(NetworkCommands, ListNics) {
  EXPECT_EQ(shown("network nic list", kHost),
            "Name    PCI Device    Driver     Admin Status  Link Status   Speed  Duplex  MAC Address         "
            "MTU  Description\n"
            "------  ------------  ---------  ------------  -----------  ------  ------  -----------------  "
            "----  -----------\n"
            "vmnic0  0000:02:00.0  mlx5_core  Up            Up           100000  Full    52:54:00:00:00:01  "
            "9000  ConnectX-5\n"
            "vmnic1  -             -          -             Down              0  Half    52:54:00:00:00:02  "
            "1500\n");
}

TEST(NetworkCommands, ListInterfaces) {
  EXPECT_EQ(shown("network ip interface list", kHost),
            "vmk0\n"
            "   Name: vmk0\n"
            "   IP Address: 192.168.1.5\n"
            "   Netstack Instance: defaultTcpipStack\n"
            "   PVRDMA: false\n"
            "\n"
            "vmk2\n"
            "   Name: vmk2\n"
            "   IP Address: 10.0.0.1\n"
            "   Netstack Instance: defaultTcpipStack\n"
            "   PVRDMA: true\n");
}

TEST(NetworkCommands, ListRulesets) {
  const std::string answer = R"([{"name":"pvrdma","enabled":true,"allow_all":false,
    "allowed":["10.0.0.0/24","10.1.0.7"]}])";
  EXPECT_EQ(shown("network firewall ruleset list", answer),
            "Name    Enabled\n"
            "------  -------\n"
            "pvrdma     true\n");
  EXPECT_EQ(shown("network firewall ruleset allowedip list -r pvrdma", answer),
            "Ruleset  Allowed IP Addresses\n"
            "-------  ---------------------\n"
            "pvrdma   10.0.0.0/24, 10.1.0.7\n");
  EXPECT_EQ(shown("network firewall ruleset allowedip list",
                  R"([{"name":"pvrdma","enabled":false,"allow_all":true,"allowed":["10.0.0.0/24"]}])"),
            "Ruleset  Allowed IP Addresses\n"
            "-------  --------------------\n"
            "pvrdma   All\n");
  EXPECT_EQ(shown("network firewall ruleset list -r sshServer", answer),
            "there is no firewall ruleset \"sshServer\": pvrdmactl network firewall ruleset list shows them");
}

TEST(NetworkCommands, ShowOneNic) {
  EXPECT_EQ(asked("network nic get -n vmnic0 -H esx-02"), "GET /v1/hosts/esx-02");
  EXPECT_EQ(shown("network nic get -n vmnic1", kHost),
            "   Bus Info: -\n"
            "   Driver: -\n"
            "   Link Detected: false\n"
            "   Link Status: Down\n"
            "   Name: vmnic1\n"
            "   Speed: 0\n"
            "   Duplex: Half\n"
            "   MAC Address: 52:54:00:00:00:02\n"
            "   MTU: 1500\n");
  EXPECT_EQ(shown("network nic get -n vmnic7", kHost),
            "there is no physical NIC \"vmnic7\": pvrdmactl network nic list shows them");
}

TEST(NetworkCommands, ShowAndChangeIpv4Addresses) {
  EXPECT_EQ(asked("network ip interface ipv4 set -i vmk2 -I 10.0.0.9 -N 255.255.255.0 -t static"),
            R"(PATCH /v1/hosts/self/vmks/vmk2 {"address":"10.0.0.9"})");
  EXPECT_EQ(shown("network ip interface ipv4 get -i vmk2", kHost),
            "Name  IPv4 Address  IPv4 Netmask  IPv4 Broadcast  Address Type  Gateway  DHCP DNS\n"
            "----  ------------  ------------  --------------  ------------  -------  --------\n"
            "vmk2  10.0.0.1      -             -               -             -               -\n");
  Json host = Json::parse(kHost);
  host["vmks"][1]["address"] = "fd00::1";
  EXPECT_EQ(shown("network ip interface ipv4 get", host.dump()).find("vmk2"), std::string::npos);
  EXPECT_EQ(shown("network ip interface ipv4 get -i vmk2", host.dump()),
            "there is no VMkernel adapter \"vmk2\" with an IPv4 address: pvrdmactl network ip interface list "
            "shows them");
}

TEST(NetworkCommands, ShowAndChangeTheFirewall) {
  EXPECT_EQ(asked("network firewall set --enabled false"),
            R"(PATCH /v1/hosts/self/firewall {"enabled":false})");
  EXPECT_EQ(asked("network firewall refresh"), "GET /v1/hosts/self/rulesets");
  EXPECT_EQ(shown("network firewall refresh", "[]"), "");
  EXPECT_EQ(shown("network firewall get", kHost),
            "   Default Action: DROP\n"
            "   Enabled: true\n"
            "   Loaded: true\n");
}

TEST(NetworkCommands, ListRules) {
  EXPECT_EQ(
      shown(
          "network firewall ruleset rule list -r pvrdma",
          R"([{"ruleset":"pvrdma","direction":"Inbound","protocol":"TCP","port_type":"Dst","port_begin":28250,
                       "port_end":28250}])"),
      "Ruleset  Direction  Protocol  Port Type  Port Begin  Port End\n"
      "-------  ---------  --------  ---------  ----------  --------\n"
      "pvrdma   Inbound    TCP       Dst             28250     28250\n");
}

TEST(NetworkCommands, SayNothingAfterAChange) {
  const std::string ruleset = R"({"name":"pvrdma","enabled":true,"allow_all":true,"allowed":[]})";
  EXPECT_EQ(shown("network firewall ruleset set -e true -r pvrdma", ruleset), "");
  EXPECT_EQ(shown("network firewall ruleset allowedip add -r pvrdma -i 10.0.0.1", ruleset), "");
  EXPECT_EQ(shown("network ip interface remove -i vmk2", "{}"), "");
  EXPECT_EQ(shown("network ip interface remove -i vmk2", "{}", Format::kApiJson), "{}\n");
}

// --- system ---

TEST(SystemCommands, AskForSettings) {
  EXPECT_EQ(asked("system settings advanced set -o /Net/PVRDMAVmknic -s vmk2"),
            R"(PUT /v1/hosts/self/advanced {"path":"/Net/PVRDMAVmknic","value":"vmk2"})");
  EXPECT_EQ(asked("system settings advanced set --option /Net/PVRDMAVmknic --string-value vmk2 -H esx-02"),
            R"(PUT /v1/hosts/esx-02/advanced {"path":"/Net/PVRDMAVmknic","value":"vmk2"})");
  for (const char* line : {"system settings advanced set -o /Net/PVRDMAVmknic -d",
                           "system settings advanced set -o /Net/PVRDMAVmknic --default"}) {
    EXPECT_EQ(asked(line), R"(PUT /v1/hosts/self/advanced {"value":"","path":"/Net/PVRDMAVmknic"})");
  }
  EXPECT_EQ(asked("system settings advanced list -o /Net/PVRDMAVmknic"), "GET /v1/hosts/self/advanced");
}

TEST(SystemCommands, ShowASettingAsEsxcliShowsAString) {
  const std::string answer = R"([{"path":"/Net/PVRDMAVmknic","type":"string","value":"vmk2","default":"",
    "description":"the vmknic for PVRDMA"},{"path":"/Net/Other","type":"string","value":"","default":"",
    "description":"another"}])";
  const std::string first =
      "   Path: /Net/PVRDMAVmknic\n"
      "   Type: string\n"
      "   Int Value: 0\n"
      "   Default Int Value: 0\n"
      "   Min Value: 0\n"
      "   Max Value: 0\n"
      "   String Value: vmk2\n"
      "   Default String Value:\n"
      "   Valid Characters: *\n"
      "   Description: the vmknic for PVRDMA\n";
  EXPECT_EQ(shown("system settings advanced list -o /Net/PVRDMAVmknic", answer), first);
  EXPECT_TRUE(shown("system settings advanced list", answer).starts_with(first + "\n   Path: /Net/Other\n"));
  EXPECT_EQ(shown("system settings advanced list -o /Net/Frob", answer),
            "there is no advanced setting \"/Net/Frob\": pvrdmactl system settings advanced list shows them");
  EXPECT_EQ(
      Json::parse(shown("system settings advanced list -o /Net/Other", answer, Format::kApiJson)).size(), 1U);
}

TEST(SystemCommands, ShowTheVersion) {
  EXPECT_EQ(asked("system version get"), "GET /v1/version");
  EXPECT_EQ(shown("system version get", R"({"version":"0.1.0"})"),
            "   Product: pvrdmad\n"
            "   Version: 0.1.0\n");
}

}  // namespace
}  // namespace pvrdma::ctl
