// Each check of `pvrdmactl doctor`: an answer without trouble, and each trouble with its way out.
#include <cerrno>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <unistd.h>

#include "pvrdmactl/doctor_checks.h"

namespace pvrdma::ctl {
namespace {

// "ok QEMU: ..." and the way out.
std::string line(const Finding& finding) {
  return std::string(to_text(finding.verdict)) + " " + finding.subject + ": " + finding.says +
         (finding.mend.empty() ? "" : " -> " + finding.mend);
}

std::vector<std::string> lines(const Findings& findings) {
  std::vector<std::string> all;
  for (const Finding& each : findings) all.push_back(line(each));
  return all;
}
using Lines = std::vector<std::string>;

TEST(DoctorQemu, NeedsVersionAndDevice) {
  const std::string mend = " -> install QEMU 10.1 or later, or name one with --qemu";
  const auto said = [](const std::string& version, bool has_device) {
    return line(check_qemu({.program = "q", .version_text = version, .has_device = has_device}));
  };
  EXPECT_EQ(said("QEMU emulator version 10.1.2 (Debian)\n", true), "ok QEMU: q 10.1 has vfio-user-pci");
  EXPECT_EQ(said("QEMU emulator version 11.0.0", true), "ok QEMU: q 11.0 has vfio-user-pci");
  EXPECT_EQ(said("QEMU emulator version 10.0.9", true), "TROUBLE QEMU: q 10.0 is older than 10.1" + mend);
  EXPECT_EQ(said("QEMU emulator version 10.1.0", false),
            "TROUBLE QEMU: q 10.1 has no device vfio-user-pci" + mend);
  EXPECT_EQ(said("hello", true), "TROUBLE QEMU: q --version says nothing of QEMU" + mend);
  EXPECT_EQ(line(check_qemu(probe_qemu("/nowhere/qemu"))),
            "TROUBLE QEMU: /nowhere/qemu cannot be run: No such file or directory" + mend);
}

TEST(DoctorQemu, IsAsked) {
  const std::string program =
      (std::filesystem::temp_directory_path() / ("pvrdma-doctor-" + std::to_string(::getpid()))).string();
  std::ofstream(program) << "#!/bin/sh\n[ \"$1\" = --version ] && echo QEMU emulator version 10.1.0 && exit\n"
                            "[ \"$1 $2\" = '-device vfio-user-pci,help' ]\n";
  std::filesystem::permissions(program, std::filesystem::perms::owner_all);
  EXPECT_EQ(check_qemu(probe_qemu(program)).verdict, Verdict::kOk);
  std::ofstream(program) << "#!/bin/sh\nexit 1\n";
  EXPECT_EQ(check_qemu(probe_qemu(program)).says, program + " cannot be run: it ended with an error");
  std::filesystem::remove(program);
}

Json process(std::uint64_t not_after_s) {
  return {{"now_s", 1000},
          {"open_files_max", 65536},
          {"locked_bytes_max", nullptr},
          {"certificates", {{{"use", "tcp"}, {"file", "/a.pem"}, {"not_after_s", not_after_s}}}}};
}

TEST(DoctorCertificates, WarnFourteenDaysBeforeTheEnd) {
  constexpr std::uint64_t kDayS = 86400;
  const std::string mend = " -> replace /a.pem, then systemctl reload pvrdmad";
  EXPECT_EQ(lines(check_certificates(process(1000 + 14 * kDayS))),
            Lines{"ok certificate [tcp]: /a.pem ends in 14 days"});
  EXPECT_EQ(lines(check_certificates(process(1000 + 14 * kDayS - 1))),
            Lines{"TROUBLE certificate [tcp]: /a.pem ends in 13 days" + mend});
  EXPECT_EQ(lines(check_certificates(process(1000))),
            Lines{"TROUBLE certificate [tcp]: /a.pem has expired" + mend});
  EXPECT_EQ(lines(check_certificates({{"certificates", Json::array()}})),
            Lines{"skipped certificates: the daemon uses no certificates"});
}

TEST(DoctorLimits, OpenFiles) {
  Json answer = process(0);
  EXPECT_EQ(line(check_open_files(answer)), "ok open files: the daemon may have 65536");
  answer["open_files_max"] = nullptr;
  EXPECT_EQ(line(check_open_files(answer)), "ok open files: the daemon has no limit");
  answer["open_files_max"] = 1024;
  EXPECT_EQ(line(check_open_files(answer)),
            "TROUBLE open files: the daemon may have 1024, fewer than 4096 -> set LimitNOFILE=65536 with "
            "systemctl edit pvrdmad, then systemctl restart pvrdmad");
}

TEST(DoctorShards, SayWhyThereIsOne) {
  EXPECT_EQ(line(check_shards({{"shards", {{{"number", 0}}, {{"number", 1}}}}, {"why_one", ""}})),
            "ok shards: 2 threads serve the adapters");
  EXPECT_EQ(line(check_shards({{"shards", {{{"number", 0}}}}, {"why_one", "[daemon] shards is 1"}})),
            "ok shards: one thread serves all adapters: [daemon] shards is 1");
  const auto with_ward = [](const Json& adapters) {
    return check_shards(
        {{"shards", {{{"number", 0}}, {{"number", 1}, {"is_ward", true}, {"adapters", adapters}}}},
         {"why_one", "[daemon] shards is 1"}});
  };
  EXPECT_EQ(line(with_ward(Json::array())),
            "ok shards: one thread serves all adapters: [daemon] shards is 1");
  EXPECT_EQ(line(with_ward({"VM-1", "VM-2"})),
            "TROUBLE shards: adapters that delayed others are in the ward: VM-1, VM-2 -> look at their VMs; "
            "pvrdmactl adapter shard set NAME --shard 0 takes one out");
}

const Json kOneHost{{"hosts", {{{"name", "esx-01"}, {"self", true}, {"trouble", ""}}}}};

Json cluster(const std::string& device) {
  return {{"hosts",
           {{{"name", "esx-01"}, {"self", true}, {"trouble", ""}},
            {{"name", "esx-02"}, {"self", false}, {"trouble", ""}}}},
          {"store", {{"description", "etcd"}, {"connected", true}, {"trouble", ""}}},
          {"tcp", {{"trouble", ""}, {"peers", {{{"host", "esx-02"}, {"lanes_up", 4}, {"trouble", ""}}}}}},
          {"hca", {{"device", device}, {"trouble", ""}, {"peers", {{{"host", "esx-02"}}}}}}};
}

TEST(DoctorLimits, LockedMemoryCountsWithAnHca) {
  const Json adapters = {{{"memory_bytes", 64u << 20}}};
  Json answer = process(0);
  EXPECT_EQ(check_locked_memory(answer, adapters, nullptr).verdict, Verdict::kSkipped);
  EXPECT_EQ(check_locked_memory(answer, adapters, cluster("")).verdict, Verdict::kSkipped);
  EXPECT_EQ(line(check_locked_memory(answer, adapters, cluster("mlx5_0"))),
            "ok locked memory: the daemon has no limit");
  answer["locked_bytes_max"] = 8u << 20;
  EXPECT_EQ(line(check_locked_memory(answer, adapters, cluster("mlx5_0"))),
            "TROUBLE locked memory: the daemon may lock 8 MiB and needs 68 MiB -> set LimitMEMLOCK=infinity "
            "with systemctl edit pvrdmad, then systemctl restart pvrdmad");
  answer["locked_bytes_max"] = 128u << 20;
  EXPECT_EQ(check_locked_memory(answer, adapters, cluster("mlx5_0")).verdict, Verdict::kOk);
}

TEST(DoctorHca, SaysWhyItIsNotUsed) {
  Json answer = cluster("");
  EXPECT_EQ(line(check_hca(answer)), "skipped HCA: not used: TCP carries the traffic");
  answer["hca"]["trouble"] = "[hca] enabled is false on this host";
  EXPECT_EQ(line(check_hca(answer)), "skipped HCA: [hca] enabled is false on this host");
  answer["hca"]["device"] = "mlx5_0";
  EXPECT_EQ(line(check_hca(answer)),
            "TROUBLE HCA: mlx5_0: [hca] enabled is false on this host -> pvrdmactl hca check");
  EXPECT_EQ(line(check_hca(cluster("mlx5_0"))), "ok HCA: mlx5_0 is used");
}

TEST(DoctorAdapter, SaysItsTrouble) {
  Json adapter = {{"name", "VM-01"}, {"state", "active"}, {"trouble", ""}, {"link_up", true}};
  EXPECT_EQ(line(check_adapter(adapter, true)), "ok adapter VM-01: active");
  adapter["link_up"] = false;
  EXPECT_EQ(line(check_adapter(adapter, true)),
            "TROUBLE adapter VM-01: its link is down -> pvrdmactl adapter set VM-01 --link up");
  adapter["state"] = "failed";
  EXPECT_EQ(line(check_adapter(adapter, true)),
            "TROUBLE adapter VM-01: the VMM took the guest's memory away -> restart the VM");
  adapter["trouble"] = "the VMM shares no memory: memory-backend-memfd,share=on";
  EXPECT_EQ(
      line(check_adapter(adapter, true)),
      "TROUBLE adapter VM-01: the VMM shares no memory: memory-backend-memfd,share=on -> start the VM as "
      "pvrdmactl vm qemu-args VM-01 says");
  EXPECT_EQ(check_adapter(adapter, false).mend, "start the VM with the arguments in QEMU of pvrdmad(8)");
  adapter["state"] = "active";
  EXPECT_EQ(check_adapter(adapter, false).mend, "") << "its QEMU has the right arguments";
}

TEST(DoctorDoorbells, CountsModes) {
  EXPECT_EQ(line(check_doorbells(
                {{{"doorbells", "trapped"}}, {{"doorbells", "mapped"}}, {{"doorbells", "mapped"}}})),
            "ok doorbells: 2 mapped, 1 trapped");
  EXPECT_EQ(check_doorbells(Json::array()).verdict, Verdict::kSkipped);
}

TEST(DoctorMonitor, IsLookedForBesideTheSocket) {
  const MonitorProbe found = probe_monitor("/nowhere/VM-01.sock");
  EXPECT_EQ(found.path, "/nowhere/VM-01.vmm/qmp");
  EXPECT_EQ(found.error, ENOENT);
  Json adapter = {{"name", "VM-01"}, {"state", "active"}};
  EXPECT_EQ(line(check_monitor(adapter, {"/m/next.qmp", 0, {}}, true)), "ok monitor VM-01: /m/next.qmp");
  EXPECT_EQ(
      line(check_monitor(adapter, {"/m/qmp", ENOENT, {}}, true)),
      "TROUBLE monitor VM-01: QEMU's monitor /m/qmp cannot be reached (No such file or directory), so the "
      "VM cannot move and has no checkpoints -> start QEMU with -qmp unix:/m/qmp,server=on,wait=off");
  EXPECT_EQ(check_monitor(adapter, {"/m/qmp", ENOENT, {}}, false).verdict, Verdict::kSkipped)
      << "a VM that is no VM of a cluster needs none for RDMA";
  EXPECT_EQ(check_monitor(adapter, {"/m/qmp", ECONNREFUSED, {}}, false).verdict, Verdict::kTrouble);
  EXPECT_EQ(line(check_monitor(adapter, {"/m/qmp", EACCES, {}}, true)),
            "skipped monitor VM-01: this user may not look: run pvrdmactl doctor as root");
  adapter["state"] = "off";
  EXPECT_EQ(line(check_monitor(adapter, {"/m/qmp", ENOENT, {}}, true)),
            "skipped monitor VM-01: the VM is off");
}

TEST(DoctorClock, MattersToCertificates) {
  const Json none{{"certificates", Json::array()}};
  EXPECT_EQ(line(check_clock({.is_synchronised = true, .error_ms = 3}, process(0))),
            "ok clock: synchronised, to 3 ms");
  EXPECT_EQ(line(check_clock({}, none)),
            "skipped clock: not synchronised, but the daemon uses no certificates");
  EXPECT_EQ(line(check_clock({}, process(0))),
            "TROUBLE clock: not synchronised, so certificates may be refused as expired or not yet valid -> "
            "install chrony or systemd-timesyncd, and see timedatectl");
}

TEST(DoctorNic, HasTheAdaptersMac) {
  const std::string device =
      R"({"driver":"vfio-user-pci","bus":"pcie.0","addr":"10.1","socket":{"type":"unix","path":"/a.sock"}})";
  const Json adapter{
      {"name", "VM-01"}, {"state", "active"}, {"socket", "/a.sock"}, {"mac", "52:54:00:aa:00:01"}};
  const auto said = [&](const std::string& nic, const std::string& own) {
    return line(check_nic(
        adapter, {"/m/qmp", 0, {"qemu", "-device", "virtio-serial", "-device", nic, "-device", own}}, true));
  };
  const std::string good = "ok NIC VM-01: the vmxnet3 in PCI slot 0x10 has the adapter's MAC";
  EXPECT_EQ(said("vmxnet3,netdev=n,mac=52:54:00:AA:00:01,bus=pcie.0,addr=10.0,multifunction=on", device),
            good);
  EXPECT_EQ(
      said(R"({"driver":"vmxnet3","mac":"52:54:00:aa:00:01","multifunction":true,"addr":"0x10"})", device),
      good);
  EXPECT_EQ(said("vmxnet3,mac=52:54:00:aa:00:01,addr=0x10",
                 "vfio-user-pci,addr=10.1,socket.type=unix,socket.path=/a.sock"),
            good);
  const std::string mend = " -> start the VM as pvrdmactl vm qemu-args VM-01 says";
  EXPECT_EQ(said("vmxnet3,mac=52:54:00:aa:00:02,addr=10", device),
            "TROUBLE NIC VM-01: the vmxnet3 in PCI slot 0x10 has the MAC 52:54:00:aa:00:02, and the adapter "
            "52:54:00:aa:00:01" +
                mend);
  EXPECT_EQ(said("vmxnet3,addr=10", device),
            "TROUBLE NIC VM-01: the vmxnet3 in PCI slot 0x10 has no MAC of its own, and the adapter "
            "52:54:00:aa:00:01" +
                mend);
  const std::string missing =
      "TROUBLE NIC VM-01: no vmxnet3 is at function 0 of the adapter's PCI slot 0x10" + mend;
  for (const char* nic : {"vmxnet3,mac=52:54:00:aa:00:01,addr=11", "vmxnet3,mac=52:54:00:aa:00:01,addr=10.2",
                          "vmxnet3,mac=52:54:00:aa:00:01,addr=10,bus=pci.1", "vmxnet3,mac=52:54:00:aa:00:01",
                          "e1000e,mac=52:54:00:aa:00:01,addr=10", "{", "", "[1]"})
    EXPECT_EQ(said(nic, device), missing) << nic;
  EXPECT_EQ(said("vmxnet3,addr=10", "vfio-user-pci,addr=10.1,socket.path=/b,,c.sock"),
            "skipped NIC VM-01: its QEMU's command line does not name /a.sock");
  EXPECT_EQ(line(check_nic(adapter, {"/m/qmp", 0, {}}, true)),
            "skipped NIC VM-01: the command line of its QEMU cannot be read");
  EXPECT_EQ(line(check_nic(adapter, {"/m/qmp", ENOENT, {}}, true)),
            "skipped NIC VM-01: its QEMU cannot be found, because its monitor cannot be reached");
}

TEST(DoctorCluster, Store) {
  Json answer = cluster("");
  EXPECT_EQ(line(check_store(answer)), "ok store: etcd");
  answer["store"]["connected"] = false;
  answer["store"]["trouble"] = "refused";
  EXPECT_EQ(line(check_store(answer)),
            "TROUBLE store: etcd cannot be reached: refused -> start the store, and see [store] in "
            "pvrdmad.toml(5)");
}

TEST(DoctorCluster, TaggedVmknic) {
  const std::string set = "pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s vmk0";
  Json host = {{"vmks", {{{"name", "vmk0"}, {"address", "10.0.0.1"}, {"tagged", true}}}}};
  EXPECT_EQ(line(check_vmknic(host, cluster(""))), "ok vmknic: vmk0 10.0.0.1");
  host["vmks"][0]["tagged"] = false;
  EXPECT_EQ(line(check_vmknic(host, cluster(""))),
            "TROUBLE vmknic: no VMkernel adapter is tagged for PVRDMA, so no host can be reached -> " + set);
  host["vmks"] = Json::array();
  EXPECT_EQ(
      line(check_vmknic(host, cluster(""))),
      "TROUBLE vmknic: this host has no VMkernel adapter, so no host can be reached -> pvrdmactl network ip "
      "interface add --interface-name vmk0 --address ADDRESS, then " +
          set);
  EXPECT_EQ(line(check_vmknic(host, kOneHost)), "skipped vmknic: the cluster has no other host");
}

TEST(DoctorCluster, Ruleset) {
  const auto said = [](bool firewall, bool enabled, const Json& hosts) {
    return line(check_ruleset(
        {{"firewall", firewall}, {"ruleset", {{"name", "pvrdma"}, {"enabled", enabled}}}}, hosts));
  };
  EXPECT_EQ(said(true, true, cluster("")), "ok ruleset pvrdma: enabled");
  EXPECT_EQ(said(false, false, cluster("")), "ok ruleset pvrdma: without effect: the firewall is disabled");
  EXPECT_EQ(said(true, false, cluster("")),
            "TROUBLE ruleset pvrdma: disabled, so no host can be reached -> pvrdmactl network firewall "
            "ruleset set -r pvrdma -e true");
  EXPECT_EQ(said(true, false, kOneHost),
            "skipped ruleset pvrdma: disabled, but the cluster has no other host");
}

TEST(DoctorCluster, Peers) {
  Json answer = cluster("");
  EXPECT_EQ(lines(check_peers(answer)), Lines{"ok peer esx-02: 4 connection(s)"});
  answer["tcp"]["peers"][0] = {{"host", "esx-02"}, {"lanes_up", 0}, {"trouble", ""}};
  EXPECT_EQ(lines(check_peers(answer)),
            Lines{"TROUBLE peer esx-02: no connection -> run pvrdmactl doctor on esx-02"});
  answer["tcp"]["peers"][0]["trouble"] = "Connection refused";
  answer["tcp"]["trouble"] = "cannot listen";
  EXPECT_EQ(lines(check_peers(answer)),
            (Lines{"TROUBLE TCP port 28250: cannot listen -> give the tagged vmknic's address to this host",
                   "TROUBLE peer esx-02: Connection refused -> run pvrdmactl doctor on esx-02"}));
  answer["tcp"] = {{"trouble", ""}, {"peers", Json::array()}};
  EXPECT_EQ(lines(check_peers(answer)), Lines{"skipped peers: this host connects to none yet"});
  answer["hosts"][1]["trouble"] = "esx-02 is not alive";
  EXPECT_EQ(lines(check_peers(answer)),
            Lines{"TROUBLE peer esx-02: esx-02 is not alive -> run pvrdmactl doctor on esx-02"});
  answer["hosts"].erase(1);
  EXPECT_EQ(lines(check_peers(answer)), Lines{"skipped peers: the cluster has no other host"});
}

TEST(DoctorCluster, Macs) {
  Json adapters = {{{"name", "VM-01"}, {"mac", "52:54:00:00:00:01"}}};
  const auto vm = [](const char* name, const char* mac) {
    return Json{{"name", name}, {"adapter", {{"mac", mac}}}};
  };
  Json vms = Json::array({vm("VM-01", "52:54:00:00:00:01"), {{"name", "VM-03"}, {"adapter", nullptr}}});
  EXPECT_EQ(lines(check_macs(adapters, vms)), Lines{"ok MACs: 1 different"});
  vms.push_back(vm("VM-02", "52:54:00:00:00:01"));
  const Lines both{
      "TROUBLE MAC 52:54:00:00:00:01: adapters VM-01 and VM-02 have it -> give one of the VMs another MAC, "
      "in its "
      "vmxnet3 adapter, too"};
  EXPECT_EQ(lines(check_macs(adapters, vms)), both);
  adapters.push_back({{"name", "VM-02"}, {"mac", "52:54:00:00:00:01"}});
  EXPECT_EQ(lines(check_macs(adapters, vms)), both) << "VM-02 is served here";
}

TEST(DoctorCluster, Vms) {
  const auto vm = [](const char* served, const char* refusal) {
    return Json::array({{{"name", "VM-01"}, {"not_served", served}, {"power_on_refusal", refusal}}});
  };
  EXPECT_EQ(lines(check_vms(vm("", ""))), Lines{});
  EXPECT_EQ(
      lines(check_vms(vm("this host has no user x: make it or name another", "b"))),
      Lines{"TROUBLE VM VM-01: this host cannot serve its adapter: this host has no user x: make it or name "
            "another"});
  EXPECT_EQ(lines(check_vms(vm("", "reserve all memory"))),
            Lines{"TROUBLE VM VM-01: it may not be powered on: reserve all memory"});
}

TEST(DoctorAnswer, IsHealthyWithoutTrouble) {
  const Json good = to_json(Findings{{Verdict::kOk, "a", "b", ""}, {Verdict::kSkipped, "c", "d", ""}});
  EXPECT_TRUE(is_healthy(good));
  EXPECT_EQ(doctor_text(good), "ok       a: b\nskipped  c: d\n");
  const Json bad = to_json(Findings{{Verdict::kTrouble, "a", "b", "run c"}});
  EXPECT_FALSE(is_healthy(bad));
  EXPECT_EQ(doctor_text(bad), "TROUBLE  a: b; to mend it: run c\n");
}

}  // namespace
}  // namespace pvrdma::ctl
