// The commands that esxcli has not: the request of each, and the text of an answer.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "pvrdmactl/commands_fixture.h"

namespace pvrdma::ctl {
namespace {

// --- system shard, adapter shard ---

TEST(ShardCommands, AnAdapterIsMovedAndThePauseShown) {
  EXPECT_EQ(asked("adapter shard set VM-01 --shard 1"), R"(PUT /v1/adapters/VM-01/shard {"shard":1})");
  EXPECT_EQ(shown("adapter shard set VM-01 --shard 1", R"({"from":0,"to":1,"pause_us":1234})"),
            "It moved from shard 0 to shard 1, and was paused for 1.2 ms.\n");
  EXPECT_EQ(shown("adapter shard set VM-01 --shard 1", R"({"from":1,"to":1,"pause_us":0})"),
            "It is on shard 1 already.\n");
}

TEST(ShardCommands, AskAndShow) {
  EXPECT_EQ(asked("system shard list"), "GET /v1/shards");
  EXPECT_EQ(
      shown("system shard list", R"({"why_one":"","shards":[
      {"number":0,"cpu":12,"cpu_us":61549000,"busy_percent":37,"adapters":["VM-01","VM-03"],"counters":{
        "shard":{"turns":81,"sleeps":7,"long_turns":2,"long_turns_us":31000},
        "rings":{"revoked":9,"revoke_waits":4,"lost":0}}},
      {"number":1,"cpu":3,"cpu_us":0,"busy_percent":0,"adapters":[],"counters":{
        "shard":{"turns":1,"sleeps":1,"long_turns":0,"long_turns_us":0}}},
      {"number":2,"cpu":3,"cpu_us":0,"is_ward":true,"trouble":"","adapters":["VM-02"],"counters":{
        "shard":{"turns":1,"sleeps":1,"long_turns":0,"long_turns_us":0}}}]})"),
      "Shard  CPU  Busy  CPU Time  Turns  Wake-ups  Long Turns  Long Turn Time  Revoke Waits  Role  "
      "Adapters\n"
      "-----  ---  ----  --------  -----  --------  ----------  --------------  ------------  ----  "
      "------------\n"
      "    0   12  37 %    61.5 s     81         7           2         31.0 ms             4  -     VM-01, "
      "VM-03\n"
      "    1    3   0 %     0.0 s      1         1           0          0.0 ms             -  -     -\n"
      "    2    3     -     0.0 s      1         1           0          0.0 ms             -  ward  VM-02\n");
}

// --- dvs ---

constexpr const char* kDvs = R"({"name":"DSwitch","id":1,"version":"8.0.0","uplinks":["uplink1","uplink2"],
  "portgroups":[{"name":"pg1","vlan":0,"mtu":1500,"native_endpoints":false,"native_peers":["10.0.0.0/8"]},
   {"name":"storage","vlan":100,"mtu":9000,"native_endpoints":true,"native_peers":["192.168.0.0/16","fd00::5"]},
   {"name":"test","vlan":101,"mtu":1500,"native_endpoints":true,"native_peers":[]}],
  "members":[{"host":"esx-01","uplinks":{"uplink1":"vmnic0"}},{"host":"esx-02","uplinks":{}}]})";

TEST(DvsCommands, Ask) {
  EXPECT_EQ(asked("dvs create DSwitch"), R"(POST /v1/dvs {"name":"DSwitch"})");
  EXPECT_EQ(asked("dvs create DSwitch --version 6.5.0 --uplinks 4"),
            R"(POST /v1/dvs {"name":"DSwitch","uplinks":4,"version":"6.5.0"})");
  EXPECT_EQ(asked("dvs list"), "GET /v1/dvs");
  EXPECT_EQ(asked("dvs get DSwitch"), "GET /v1/dvs/DSwitch");
  EXPECT_EQ(asked("dvs delete DSwitch"), "DELETE /v1/dvs/DSwitch");
  EXPECT_EQ(asked("dvs add-host DSwitch esx-01"), "PUT /v1/dvs/DSwitch/hosts/esx-01 {}");
  EXPECT_EQ(asked("dvs remove-host DSwitch esx-01"), "DELETE /v1/dvs/DSwitch/hosts/esx-01");
  EXPECT_EQ(asked("dvs portgroup add DSwitch pg1"), "PUT /v1/dvs/DSwitch/portgroups/pg1 {}");
  EXPECT_EQ(asked("dvs portgroup add DSwitch pg1 --vlan 100"),
            R"(PUT /v1/dvs/DSwitch/portgroups/pg1 {"vlan":100})");
  EXPECT_EQ(asked("dvs portgroup add DSwitch pg1 --mtu 9000"),
            R"(PUT /v1/dvs/DSwitch/portgroups/pg1 {"mtu":9000})");
  EXPECT_EQ(asked("dvs portgroup set DSwitch pg1 --mtu 9000"),
            R"(PATCH /v1/dvs/DSwitch/portgroups/pg1 {"mtu":9000})");
  EXPECT_EQ(
      asked("dvs portgroup set DSwitch pg1 --native-endpoints on --native-peers 192.168.0.0/16,fd00::5"),
      "PATCH /v1/dvs/DSwitch/portgroups/pg1 "
      R"({"native_endpoints":true,"native_peers":["192.168.0.0/16","fd00::5"]})");
  EXPECT_EQ(asked("dvs portgroup set DSwitch pg1 --native-endpoints off --native-peers any"),
            R"(PATCH /v1/dvs/DSwitch/portgroups/pg1 {"native_endpoints":false,"native_peers":[]})");
  EXPECT_EQ(asked("dvs portgroup add DSwitch pg1 --native-endpoints on"),
            R"(PUT /v1/dvs/DSwitch/portgroups/pg1 {"native_endpoints":true})");
  EXPECT_EQ(asked("dvs portgroup set DSwitch pg1 --native-endpoints yes"),
            "--native-endpoints: \"yes\" is neither on nor off: see pvrdmactl dvs portgroup set --help");
  EXPECT_EQ(asked("dvs portgroup list DSwitch"), "GET /v1/dvs/DSwitch");
  EXPECT_EQ(asked("dvs portgroup remove DSwitch pg1"), "DELETE /v1/dvs/DSwitch/portgroups/pg1");
  EXPECT_EQ(asked("dvs uplink set DSwitch esx-01 uplink1 vmnic0"),
            R"(PUT /v1/dvs/DSwitch/hosts/esx-01/uplinks/uplink1 {"vmnic":"vmnic0"})");
  EXPECT_EQ(asked("dvs uplink set DSwitch esx-01 uplink1 --none"),
            R"(PUT /v1/dvs/DSwitch/hosts/esx-01/uplinks/uplink1 {"vmnic":""})");
}

TEST(DvsCommands, Show) {
  EXPECT_EQ(shown("dvs list", "[" + std::string(kDvs) + "]"),
            "Name     Id  Version  Uplinks  Port Groups  Hosts\n"
            "-------  --  -------  -------  -----------  -----\n"
            "DSwitch   1  8.0.0          2            3      2\n");
  const std::string record =
      "DSwitch\n"
      "   Id: 1\n"
      "   Version: 8.0.0\n"
      "   Uplinks: uplink1, uplink2\n"
      "   Port Group pg1: VLAN 0, MTU 1500, native endpoints off\n"
      "   Port Group storage: VLAN 100, MTU 9000, native endpoints 192.168.0.0/16, fd00::5\n"
      "   Port Group test: VLAN 101, MTU 1500, native endpoints any\n"
      "   Host esx-01: uplink1=vmnic0\n"
      "   Host esx-02: no uplink\n";
  for (const char* line : {"dvs get DSwitch", "dvs create DSwitch", "dvs add-host DSwitch esx-01",
                           "dvs portgroup add DSwitch pg1", "dvs portgroup set DSwitch pg1 --mtu 1500",
                           "dvs uplink set DSwitch esx-01 uplink1 vmnic0"}) {
    EXPECT_EQ(shown(line, kDvs), record) << line;
  }
  EXPECT_EQ(shown("dvs portgroup list DSwitch", kDvs),
            "Name     VLAN   MTU  Native Endpoints\n"
            "-------  ----  ----  -----------------------\n"
            "pg1         0  1500  off\n"
            "storage   100  9000  192.168.0.0/16, fd00::5\n"
            "test      101  1500  any\n");
  EXPECT_EQ(shown("dvs remove-host DSwitch esx-01", kDvs), "");
}

// --- vm ---

constexpr const char* kVm = R"({"name":"VM-01","host":"esx-01","hardware_version":14,"memory_mib":2048,
  "memory_reserved_mib":2048,"power":"off","adapter":{"mac":"52:54:00:12:34:51","dvs":"DSwitch","portgroup":"pg1",
  "protocol":"v2","profile":"open","doorbells":"trapped","addresses":["10.0.0.5","fd00::5"],"owner":"vm-01","group":"","socket":"/run/pvrdma/VM-01.sock"},"power_on_refusal":"","not_served":""})";

TEST(VmCommands, AskToCreate) {
  EXPECT_EQ(asked("vm create VM-01 --hw 14 --memory 2048"),
            R"(POST /v1/vms {"name":"VM-01","hardware_version":14,"memory_mib":2048})");
  EXPECT_EQ(
      asked("vm create VM-01 --host esx-02 --hw 14 --memory 2048 --reserve all --portgroup pg1 --dvs DSwitch "
            "--mac 52:54:00:12:34:51 --protocol v2 --profile esxi --doorbells mapped"),
      R"(POST /v1/vms {"name":"VM-01","host":"esx-02","hardware_version":14,"memory_mib":2048,)"
      R"("memory_reserved_mib":2048,"adapter":{"portgroup":"pg1","dvs":"DSwitch","mac":"52:54:00:12:34:51",)"
      R"("protocol":"v2","profile":"esxi","doorbells":"mapped"}})");
  EXPECT_EQ(
      asked("vm create VM-01 --hw 14 --memory 2048 --reserve 1024"),
      R"(POST /v1/vms {"name":"VM-01","hardware_version":14,"memory_mib":2048,"memory_reserved_mib":1024})");
}

TEST(VmCommands, Ask) {
  EXPECT_EQ(asked("vm list"), "GET /v1/vms");
  EXPECT_EQ(asked("vm get VM-01"), "GET /v1/vms/VM-01");
  EXPECT_EQ(asked("vm delete VM-01"), "DELETE /v1/vms/VM-01");
  EXPECT_EQ(
      asked("vm set VM-01 --memory 4096 --reserve 4096 --protocol v1 --portgroup pg2 --dvs D --host esx-02"),
      R"(PATCH /v1/vms/VM-01 {"host":"esx-02","memory_mib":4096,"memory_reserved_mib":4096,"portgroup":"pg2",)"
      R"("dvs":"D","protocol":"v1"})");
  EXPECT_EQ(asked("vm set VM-01 --reserve all"), R"(PATCH /v1/vms/VM-01 {"memory_reserved_mib":2048})");
  EXPECT_EQ(asked("vm set VM-01 --memory 4096 --reserve all"),
            R"(PATCH /v1/vms/VM-01 {"memory_mib":4096,"memory_reserved_mib":4096})");
  EXPECT_EQ(asked("vm upgrade VM-01 --hw 18"), R"(POST /v1/vms/VM-01/upgrade {"hardware_version":18})");
  EXPECT_EQ(asked("vm adapter add VM-01 --portgroup pg1 --protocol v1"),
            R"(PUT /v1/vms/VM-01/adapter {"portgroup":"pg1","protocol":"v1"})");
  EXPECT_EQ(asked("vm adapter add VM-01"),
            "pvrdmactl vm adapter add needs --portgroup: see pvrdmactl vm adapter add --help");
  EXPECT_EQ(asked("vm adapter remove VM-01"), "DELETE /v1/vms/VM-01/adapter");
  EXPECT_EQ(asked("vm qemu-args VM-01"), "GET /v1/vms/VM-01/qemu-args");
  EXPECT_EQ(asked("vm libvirt-xml VM-01"), "GET /v1/vms/VM-01/libvirt-xml");
}

TEST(VmCommands, AskForDoorbellsAddressesAndOwners) {
  EXPECT_EQ(asked("vm set VM-01 --addresses 10.0.0.5,fd00::5 --owner vm-01"),
            R"(PATCH /v1/vms/VM-01 {"addresses":["10.0.0.5","fd00::5"],"owner":"vm-01"})");
  EXPECT_EQ(asked("vm set VM-01 --doorbells mapped"), R"(PATCH /v1/vms/VM-01 {"doorbells":"mapped"})");
  EXPECT_EQ(asked("vm set VM-01 --addresses any"), R"(PATCH /v1/vms/VM-01 {"addresses":[]})");
}

TEST(VmCommands, Show) {
  Json bare = Json::parse(kVm);
  bare["name"] = "VM-02";
  bare["adapter"] = nullptr;
  bare["power_on_refusal"] = "VM-02 has no adapter";
  bare["not_served"] = "its socket is in use";
  EXPECT_EQ(
      shown("vm list", "[" + std::string(kVm) + "," + bare.dump() + "]"),
      "Name   Host    Power  HW  Memory MiB  Reserved MiB  MAC                DVS      Port Group  RoCE\n"
      "-----  ------  -----  --  ----------  ------------  -----------------  -------  ----------  ----\n"
      "VM-01  esx-01  off    14        2048          2048  52:54:00:12:34:51  DSwitch  pg1         v2\n"
      "VM-02  esx-01  off    14        2048          2048  -                  -        -           -\n");
  for (const char* line :
       {"vm get VM-01", "vm create VM-01 --hw 14 --memory 2048", "vm set VM-01 --memory 2048",
        "vm upgrade VM-01 --hw 14", "vm adapter add VM-01 --portgroup pg1"}) {
    EXPECT_EQ(shown(line, kVm),
              "VM-01\n"
              "   Host: esx-01\n"
              "   Power: off\n"
              "   Hardware Version: 14\n"
              "   Memory: 2048 MiB\n"
              "   Reserved Memory: 2048 MiB\n"
              "   MAC: 52:54:00:12:34:51\n"
              "   DVS: DSwitch\n"
              "   Port Group: pg1\n"
              "   Protocol: RoCE v2\n"
              "   Profile: open\n"
              "   Doorbells: trapped\n"
              "   Addresses: 10.0.0.5, fd00::5\n"
              "   Socket: /run/pvrdma/VM-01.sock\n"
              "   Socket Owner: vm-01\n")
        << line;
  }
  EXPECT_EQ(shown("vm get VM-02", bare.dump()),
            "VM-02\n"
            "   Host: esx-01\n"
            "   Power: off\n"
            "   Hardware Version: 14\n"
            "   Memory: 2048 MiB\n"
            "   Reserved Memory: 2048 MiB\n"
            "   Cannot Power On: VM-02 has no adapter\n"
            "   Not Served: its socket is in use\n");
  EXPECT_EQ(shown("vm delete VM-01", "{}"), "");
}

TEST(VmCommands, PrintWhatStartsTheVmm) {
  EXPECT_EQ(shown("vm qemu-args VM-01",
                  R"json({"arguments":["-object","memory-backend-memfd,id=m,size=2048M","-device",
                  "{\"driver\":\"vfio-user-pci\"}","it's","a b","","$(reboot)","*","~"]})json"),
            "-object memory-backend-memfd,id=m,size=2048M -device '{\"driver\":\"vfio-user-pci\"}' "
            "'it'\\''s' 'a b' '' "
            "'$(reboot)' '*' '~'\n");
  EXPECT_EQ(shown("vm libvirt-xml VM-01", R"({"xml":"<a>\n</a>"})"), "<a>\n</a>\n");
  EXPECT_EQ(shown("vm libvirt-xml VM-01", R"({"xml":"<a/>\n"})"), "<a/>\n");
}

// --- reads of another host ---

TEST(ReadsOfAnotherHost, Ask) {
  EXPECT_EQ(asked("adapter list --host esx-02"), "GET /v1/hosts/esx-02/adapters");
  EXPECT_EQ(asked("adapter get VM-01 -H esx-02"), "GET /v1/hosts/esx-02/adapters/VM-01");
  EXPECT_EQ(asked("-H esx-02 qp list --adapter VM-01"), "GET /v1/hosts/esx-02/qps?adapter=VM-01");
  EXPECT_EQ(asked("path list --host esx-02"), "GET /v1/hosts/esx-02/paths");
  EXPECT_EQ(asked("stats --host esx-02"), "GET /v1/hosts/esx-02/stats");
  EXPECT_EQ(asked("system shard list --host esx-02"), "GET /v1/hosts/esx-02/shards");
  EXPECT_EQ(asked("adapter budget list --host esx-02"), "GET /v1/hosts/esx-02/budgets");
  EXPECT_EQ(asked("adapter capture list --host esx-02"), "GET /v1/hosts/esx-02/captures");
  EXPECT_EQ(asked("fault list --host esx-02"), "GET /v1/hosts/esx-02/faults");
  EXPECT_EQ(asked("cluster get --host esx-02"), "GET /v1/hosts/esx-02/cluster");
  EXPECT_EQ(asked("motion list --host esx-02"), "GET /v1/hosts/esx-02/motions");
  EXPECT_EQ(asked("motion get VM-01 --host esx-02"), "GET /v1/hosts/esx-02/vms/VM-01/motion");
  EXPECT_EQ(asked("events --host esx-02"), "GET /v1/hosts/esx-02/events?after=0&limit=1024");
  EXPECT_EQ(asked("rdma device stats get -d vmrdma0 -H esx-02"), "GET /v1/hosts/esx-02/rdma/vmrdma0/stats");
  EXPECT_THAT(asked("events --follow --host esx-02"),
              testing::HasSubstr("--follow shows the events of the daemon's own host"));
}

// --- host, cluster ---

TEST(HostCommands, Ask) {
  EXPECT_EQ(asked("host list"), "GET /v1/hosts");
  EXPECT_EQ(asked("host get"), "GET /v1/hosts/self");
  EXPECT_EQ(asked("host get esx-02"), "GET /v1/hosts/esx-02");
  EXPECT_EQ(asked("host delete esx-02"), "DELETE /v1/hosts/esx-02");
  EXPECT_EQ(asked("cluster get"), "GET /v1/cluster");
}

TEST(HostCommands, Show) {
  Json gone = Json::parse(kHost);
  gone.update(
      {{"name", "esx-02"}, {"self", false}, {"alive", false}, {"version", ""}, {"pvrdma_vmknic", ""}});
  gone["vmks"] = Json::array();
  gone["ruleset"]["enabled"] = false;
  EXPECT_EQ(shown("host list", "[" + std::string(kHost) + "," + gone.dump() + "]"),
            "Name     Self  Alive  Version  PVRDMA Vmknic    Ruleset\n"
            "------  -----  -----  -------  ---------------  --------\n"
            "esx-01   true   true  0.1.0    vmk2 (10.0.0.1)  enabled\n"
            "esx-02  false  false  -        -                disabled\n");
  EXPECT_EQ(shown("host get", kHost),
            "esx-01\n"
            "   Self: true\n"
            "   Alive: true\n"
            "   Version: 0.1.0\n"
            "   Socket Folder: /run/pvrdma\n"
            "   PVRDMA Vmknic: vmk2 (10.0.0.1)\n"
            "   Ruleset pvrdma: enabled, admits 10.0.0.0/24, 10.1.0.7\n"
            "   Vmknic vmk0: 192.168.1.5\n"
            "   Vmknic vmk2: 10.0.0.1\n"
            "   NIC vmnic0: eth0, link up\n"
            "   NIC vmnic1: veth1, link down\n"
            "   RDMA Device vmrdma0: mlx5_0, active\n"
            "   RDMA Device vmrdma1: siw0, down\n");
}

TEST(HostCommands, ShowTheCluster) {
  EXPECT_EQ(shown("cluster get",
                  R"({"host":"esx-01","hosts":[{"name":"esx-01","self":true,"trouble":""},
                  {"name":"esx-02","self":false,"trouble":"esx-02 is not alive"}],"store":{"description":"etcd at http://10.0.0.9:2379","connected":true,
                  "trouble":"","edits":3,"conflicts":1,"live_conflicts":0,"bad_records":0,"resyncs":2},
                  "tcp":{"listening":true,"trouble":"","peers":[{"host":"esx-02","lanes_up":4,"sessions_up":7,
                  "reconnects":1,"trouble":""}]},
                  "hca":{"device":"mlx5_0","trouble":"","pinned_bytes":1073741824,"peers":[{"host":"esx-02","up":false,"falls":3,
                  "trouble":"port 1 of RDMA device mlx5_0 is down"}]}})"),
            "esx-01\n"
            "   Store Description: etcd at http://10.0.0.9:2379\n"
            "   Store Connected: true\n"
            "   Store Trouble: -\n"
            "   Store Edits: 3\n"
            "   Store Conflicts: 1\n"
            "   Store Live Conflicts: 0\n"
            "   Store Bad Records: 0\n"
            "   Store Resyncs: 2\n"
            "   TCP Listening: true\n"
            "   TCP Trouble: -\n"
            "   HCA Device: mlx5_0\n"
            "   HCA Trouble: -\n"
            "   HCA Pinned Memory: 1024 MiB\n"
            "\n"
            "Host     Self  State\n"
            "------  -----  -------------------\n"
            "esx-01   true  ready\n"
            "esx-02  false  esx-02 is not alive\n"
            "\n"
            "Peer    Lanes Up  Sessions Up  Reconnects  Trouble\n"
            "------  --------  -----------  ----------  -------\n"
            "esx-02         4            7           1  -\n"
            "\n"
            "HCA Peer  Up     Falls  Trouble\n"
            "--------  -----  -----  ------------------------------------\n"
            "esx-02    false      3  port 1 of RDMA device mlx5_0 is down\n");
}

// --- adapter, qp, path, stats, version ---

constexpr const char* kAdapter =
    R"({"name":"VM-01","state":"active","mac":"52:54:00:12:34:51","hardware_version":14,
  "roce":"v2","doorbells":"mapped","mtu":4096,"native_endpoints":"off: no link","socket":"/run/a.sock","link_up":true,"device_version":18,"driver_version":20,"guest_os":"Linux",
  "memory_bytes":536870912,"pinned_bytes":4194304,"pinned_trouble":"no memory","tx_messages":2,"tx_bytes":65536,"rx_messages":1,"rx_bytes":8,
  "gids":[{"index":0,"gid":"fe80::1","roce":"v2","lost_to":"esx-02"}],"objects":{"pds":1,"qps":3},
  "budgets":{"qps":{"use":3,"limit":4096,"refused":0},"mapped_mib":{"use":512,"limit":513,"refused":2}},
  "paths":{"local":{"messages":5,"payload_bytes":640}}})";

TEST(AdapterCommands, Ask) {
  EXPECT_EQ(asked("adapter list"), "GET /v1/adapters");
  EXPECT_EQ(asked("adapter get VM-01"), "GET /v1/adapters/VM-01");
  EXPECT_EQ(asked("adapter set VM-01 --link up"), R"(PUT /v1/adapters/VM-01/link {"up":true})");
  EXPECT_EQ(asked("adapter set VM-01 --link down"), R"(PUT /v1/adapters/VM-01/link {"up":false})");
  EXPECT_EQ(asked("qp list"), "GET /v1/qps");
  EXPECT_EQ(asked("qp list --adapter VM-01"), "GET /v1/qps?adapter=VM-01");
  EXPECT_EQ(asked("qp list --adapter VM-01 --path tcp --limit 100 --after 17"),
            "GET /v1/qps?adapter=VM-01&path=tcp&after=17&limit=100");
  EXPECT_EQ(asked("path list"), "GET /v1/paths");
  EXPECT_EQ(asked("-H esx-02 path summary"), "GET /v1/hosts/esx-02/paths/summary");
  EXPECT_EQ(asked("stats"), "GET /v1/stats");
  EXPECT_EQ(asked("stats --adapter VM-01"), "GET /v1/stats?adapter=VM-01");
  EXPECT_EQ(asked("version"), "GET /v1/version");
}

TEST(AdapterCommands, ListAdapters) {
  EXPECT_EQ(shown("adapter list", "[" + std::string(kAdapter) + "]"),
            "Name   State   MAC                HW  RoCE  QPs  TX Bytes  RX Bytes  Socket\n"
            "-----  ------  -----------------  --  ----  ---  --------  --------  -----------\n"
            "VM-01  active  52:54:00:12:34:51  14  v2      3     65536         8  /run/a.sock\n");
}

TEST(AdapterCommands, ShowWhyADriverCannotWork) {
  const std::string shared = R"({"trouble":"the VMM shares no memory",)" + std::string(kAdapter).substr(1);
  EXPECT_TRUE(shown("adapter get VM-01", shared)
                  .starts_with("VM-01\n   State: active\n   Trouble: the VMM shares no memory\n   MAC: "));
}

TEST(AdapterCommands, ShowHowOftenAnAdapterHeldUpItsShard) {
  const std::string held_up = R"({"offences":3,"offences_us":480512,)" + std::string(kAdapter).substr(1);
  EXPECT_NE(shown("adapter get VM-01", held_up).find("\n   Held Up Its Shard: 3 times, 480 ms\n"),
            std::string::npos);
}

TEST(AdapterCommands, ShowOneAdapter) {
  EXPECT_EQ(shown("adapter get VM-01", kAdapter),
            "VM-01\n"
            "   State: active\n"
            "   MAC: 52:54:00:12:34:51\n"
            "   Hardware Version: 14\n"
            "   RoCE: v2\n"
            "   Doorbells: mapped\n"
            "   Active MTU: 4096\n"
            "   Native Endpoints: off: no link\n"
            "   Socket: /run/a.sock\n"
            "   Link: up\n"
            "   Device Version: 18\n"
            "   Driver Version: 20\n"
            "   Guest OS: Linux\n"
            "   Guest Memory: 512 MiB\n"
            "   Pinned Memory: 4 MiB (no memory)\n"
            "   GID 0: fe80::1 (RoCE v2), not in use: host esx-02 holds it\n"
            "   Objects: 1 pds, 3 qps\n"
            "   Budget qps: 3 of 4096\n"
            "   Budget mapped_mib: 512 of 513, refused 2 times\n"
            "   TX: 2 messages, 65536 bytes\n"
            "   RX: 1 messages, 8 bytes\n"
            "   Path local: 5 messages, 640 bytes sent\n");
}

TEST(AdapterCommands, CountConnectionsByPath) {
  EXPECT_EQ(shown("path summary", R"([
        {"adapter":"VM-01","path":"tcp","reason":"this host has no HCA","peer_host":"esx-02","connections":64},
        {"adapter":"VM-01","path":"none","reason":"no host has it","peer_host":"","connections":1}])"),
            "Adapter  Path  Peer Host  Connections  Reason\n"
            "-------  ----  ---------  -----------  --------------------\n"
            "VM-01    tcp   esx-02              64  this host has no HCA\n"
            "VM-01    none  -                    1  no host has it\n");
}

TEST(AdapterCommands, ListQpsWithTheirPaths) {
  EXPECT_EQ(
      shown("qp list",
            R"([{"adapter":"VM-01","qpn":2,"type":"RC","state":"RTS","remote_gid":"fe80::2","remote_qpn":7,
        "path":"local","tx_messages":1,"tx_bytes":2,"rx_messages":3,"rx_bytes":4},
        {"adapter":"VM-01","qpn":1,"type":"GSI","state":"RTS","remote_gid":"","remote_qpn":0,"path":"",
        "tx_messages":0,"tx_bytes":0,"rx_messages":0,"rx_bytes":0}])"),
      "Adapter  QPN  Type  State  Path   Remote GID  Remote QPN  TX Messages  TX Bytes  RX Messages  RX "
      "Bytes\n"
      "-------  ---  ----  -----  -----  ----------  ----------  -----------  --------  -----------  "
      "--------\n"
      "VM-01      2  RC    RTS    local  fe80::2              7            1         2            3         "
      "4\n"
      "VM-01      1  GSI   RTS    -      -                    -            0         0            0         "
      "0\n");
}

TEST(AdapterCommands, ListPathsAndWhy) {
  EXPECT_EQ(
      shown("path list",
            R"([{"adapter":"VM-01","qpn":2,"local_gid":"fe80::1","remote_gid":"fe80::2","remote_qpn":7,
        "peer_host":"esx-02","path":"tcp","reason":"the VMs are on different hosts"},
        {"adapter":"VM-01","qpn":3,"local_gid":"fe80::1","remote_gid":"fe80::9","remote_qpn":8,"peer_host":"",
        "path":"none","reason":"nobody has the GID"}])"),
      "Adapter  QPN  Path  Peer Host  Local GID  Remote GID  Remote QPN  Reason\n"
      "-------  ---  ----  ---------  ---------  ----------  ----------  ------------------------------\n"
      "VM-01      2  tcp   esx-02     fe80::1    fe80::2              7  the VMs are on different hosts\n"
      "VM-01      3  none  -          fe80::1    fe80::9              8  nobody has the GID\n");
}

TEST(AdapterCommands, ShowTheCountersThatAreNotZero) {
  EXPECT_EQ(shown("stats", R"({"adapters":[{"name":"VM-01","verbs":{"tx_bytes":5,"timeouts":0}}],
        "host":{"shard":{"turns":77}}})"),
            "Adapter  Group  Counter   Value\n"
            "-------  -----  --------  -----\n"
            "VM-01    verbs  tx_bytes      5\n"
            "-        shard  turns        77\n");
}

TEST(AdapterCommands, ShowBothVersions) {
  EXPECT_EQ(shown("version", R"({"version":"1.2.3"})"), "pvrdmactl " PVRDMA_VERSION "\npvrdmad 1.2.3\n");
  EXPECT_EQ(shown("version", R"({"version":"1.2.3"})", Format::kApiJson),
            "{\n  \"version\": \"1.2.3\",\n  \"pvrdmactl\": \"" PVRDMA_VERSION "\"\n}\n");
}

// --- fault ---

TEST(FaultCommands, AskForFaults) {
  EXPECT_EQ(asked("fault add --adapter VM-01 --drop 0.01 --seed 7"),
            R"(POST /v1/faults {"adapter":"VM-01","drop":0.01,"seed":7})");
  EXPECT_EQ(
      asked("fault add --adapter VM-01 --duplicate 1 --delay .5 --reorder 0.25 --corrupt 0 --late-ms 20"),
      "POST /v1/faults "
      R"({"adapter":"VM-01","duplicate":1.0,"delay":0.5,"reorder":0.25,"corrupt":0.0,"late_ms":20})");
  for (const std::string wrong :
       {"2", "1.1", "-0.1", "nan", "NaN", "inf", "1e-3", "0,1", ".", "0.0.1", "0x1"}) {
    EXPECT_EQ(asked("fault add --adapter VM-01 --drop=" + wrong),
              "--drop: \"" + wrong +
                  "\" is not a probability: it takes 0 to 1, such as 0.01: see pvrdmactl fault add --help");
  }
  EXPECT_NE(asked("fault add --drop 0.1").find("needs --adapter"), std::string::npos);
}

TEST(FaultCommands, RemoveOneOrAll) {
  EXPECT_EQ(asked("fault remove 3"), "DELETE /v1/faults/3");
  EXPECT_EQ(asked("fault remove --all"), "DELETE /v1/faults/all");
  EXPECT_NE(asked("fault remove").find("needs ID or --adapter or --all"), std::string::npos);
  EXPECT_NE(asked("fault remove 3 --all").find("only one of"), std::string::npos);

  auto invocation = parse("pvrdmactl", split("fault remove --adapter VM-01"));
  ASSERT_TRUE(invocation);
  const Get none = [](const std::string&) -> Result<std::string> { return "[]"; };
  EXPECT_EQ(complete(*invocation->command, invocation->values, none).error().message,
            "adapter VM-01 has no fault: see pvrdmactl fault list");
  const Get one = [](const std::string& path) -> Result<std::string> {
    EXPECT_EQ(path, "/v1/faults?adapter=VM-01");
    return R"([{"id":17}])";
  };
  ASSERT_TRUE(complete(*invocation->command, invocation->values, one));
  EXPECT_EQ(make_request(*invocation->command, invocation->values).path, "/v1/faults/17");
}

TEST(FaultCommands, ShowWhatFaultsDid) {
  EXPECT_EQ(shown("fault list",
                  R"([{"id":3,"adapter":"VM-01","drop":0.01,"duplicate":0.0,"delay":1.0,"reorder":0.0,
                       "corrupt":0.000001,"late_ms":20,"seed":7,"counts":{"messages":1000,"dropped":12,
                       "duplicated":0,"delayed":990,"reordered":0,"corrupted":0}}])"),
            "ID  Adapter  Seed  Messages      Drop  Duplicate   Delay  Reorder   Corrupt  Late ms\n"
            "--  -------  ----  --------  --------  ---------  ------  -------  --------  -------\n"
            " 3  VM-01       7      1000  0.01: 12       0: 0  1: 990     0: 0  1e-06: 0       20\n");
  EXPECT_EQ(shown("fault add --adapter VM-01 --drop 0.1", R"({"id":3,"adapter":"VM-01","seed":7})"),
            "Fault 3\n   Adapter: VM-01\n   Seed: 7\n");
}

// --- capture ---

TEST(CaptureCommand, AsksForWhatIsToBeCaptured) {
  EXPECT_EQ(asked("capture VM-01 -w file"), "POST /v1/adapters/VM-01/capture {}");
  EXPECT_EQ(asked("capture VM-01 --write=- -f out -s 96 -c 10 --duration 5"),
            "POST /v1/adapters/VM-01/capture "
            R"({"filter":"out","snaplen":96,"count":10,"duration":5})");
  EXPECT_NE(asked("capture VM-01").find("--write"), std::string::npos);
}

TEST(CaptureCommand, ListsAndEndsWhatRuns) {
  EXPECT_EQ(asked("adapter capture list"), "GET /v1/captures");
  EXPECT_EQ(asked("adapter capture end 7"), "DELETE /v1/captures/7");
  EXPECT_EQ(shown("adapter capture list",
                  R"([{"id":7,"adapter":"VM-01","filter":"op write","snaplen":96,"count":0,"duration":0,
                       "started_s":0,"sent_bytes":42,"dropped":5}])"),
            "ID  Adapter  Since                 Bytes  Dropped  Filter\n"
            "--  -------  --------------------  -----  -------  --------\n"
            " 7  VM-01    1970-01-01T00:00:00Z     42        5  op write\n");
}

TEST(BudgetCommands, ShowUseAndLimit) {
  EXPECT_EQ(asked("adapter budget list"), "GET /v1/budgets");
  EXPECT_EQ(shown("adapter budget list",
                  R"({"adapters":[{"name":"VM-01","budgets":{"qps":{"use":3,"limit":64,"refused":1}}}],
                      "totals":{"qps":{"use":3,"limit":4096,"refused":0}}})"),
            "Adapter       Budget  Use  Limit  Refused\n"
            "------------  ------  ---  -----  -------\n"
            "VM-01         qps       3     64        1\n"
            "all together  qps       3   4096        0\n");
}

TEST(VmCommands, ChangeAVmsQemu) {
  EXPECT_EQ(asked("vm qemu-args VM-01"), "GET /v1/vms/VM-01/qemu-args");
  EXPECT_EQ(asked("vm qemu-args VM-01 --incoming"), "GET /v1/vms/VM-01/qemu-args?incoming=true");
  EXPECT_EQ(asked("vm upgrade-vmm VM-01"), "POST /v1/adapters/VM-01/upgrade-vmm {}");
  EXPECT_EQ(asked("vm upgrade-vmm VM-01 --monitor /a --new-monitor=/b"),
            R"(POST /v1/adapters/VM-01/upgrade-vmm {"monitor":"/a","new_monitor":"/b"})");
  const auto invocation = parse("pvrdmactl", split("vm upgrade-vmm VM-01"));
  EXPECT_EQ(make_request(*invocation->command, invocation->values).answer_seconds, 120U);
  EXPECT_EQ(shown("vm upgrade-vmm VM-01",
                  R"({"vm":"VM-01","from":{"version":"10.0.2","pid":17},"to":{"version":"11.1.3","pid":18},
                      "pause_us":63449,"qemu_us":40300,"restore_us":18050,"adapter_us":200,"state_bytes":4801})"),
            "VM-01: QEMU 10.0.2 (pid 17) -> QEMU 11.1.3 (pid 18)\n"
            "  pause  63.4 ms (QEMU 40.3, PCI state 18.1, adapter 0.2)\n"
            "  state  4801 bytes\n");
}

TEST(VmCommands, ShowAMotion) {
  const auto running = [](const std::string& memory) {
    return R"({"vm":"VM-01","from":"esx-01","to":"esx-02","state":"runs","phase":"prepare",)" + memory + "}";
  };
  EXPECT_EQ(shown("motion get VM-01", running(R"("ram_bytes":0,"remaining_bytes":0)")),
            "VM-01: esx-01 -> esx-02\n"
            "  prepare\n");
  EXPECT_EQ(shown("motion get VM-01", running(R"("ram_bytes":4194304,"remaining_bytes":1048576)")),
            "VM-01: esx-01 -> esx-02\n"
            "  prepare  1 of 4 MiB are left\n");
}

TEST(VmCommands, WriteAVmToAFile) {
  EXPECT_EQ(asked("vm qemu-args VM-01 --restore"), "GET /v1/vms/VM-01/qemu-args?incoming=file");
  EXPECT_NE(asked("vm qemu-args VM-01 --restore --incoming").find("--incoming or --restore"),
            std::string::npos);
  EXPECT_EQ(asked("vm checkpoint VM-01 /a"), R"(POST /v1/adapters/VM-01/checkpoint {"file":"/a"})");
  EXPECT_EQ(asked("vm restore VM-01 /a --monitor /b"),
            R"(POST /v1/adapters/VM-01/restore {"file":"/a","monitor":"/b"})");
  EXPECT_EQ(shown("vm checkpoint VM-01 /a",
                  R"({"vm":"VM-01","ram_bytes":537395200,"remaining_bytes":0,"state_bytes":4801,
                      "took_us":812345,"qemu":{"version":"11.1.3","pid":17},"error":""})"),
            "VM-01: written in 0.81 s by QEMU 11.1.3 (pid 17), and off\n"
            "  memory  512 MiB\n"
            "  state   4801 bytes\n");
  EXPECT_EQ(
      shown("vm restore VM-01 /a", R"({"vm":"VM-01","took_us":400000,"qemu":{"version":"11.1.3","pid":18}})"),
      "VM-01: goes on in QEMU 11.1.3 (pid 18), after 0.40 s\n");
}

}  // namespace
}  // namespace pvrdma::ctl
