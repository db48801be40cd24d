// Each request about the cluster, over a real UNIX socket: what it does, and which mistakes it refuses.
#include <chrono>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>
#include <nlohmann/json.hpp>
#include <string>

#include "api/api_fixture.h"

namespace pvrdma::api {
namespace {

using Json = nlohmann::json;
using testing::HasSubstr;

struct Answer {
  int status = 0;
  Json json;
  std::string error() const { return json.is_object() ? json.value("error", "") : ""; }
};

class ClusterApi : public testing::Test {
 protected:
  void SetUp() override {
    server_ = ApiServer::listen(path_, host_.parts(member_.plane.get())).value();
    server_->start();
  }

  Answer ask(const std::string& method, const std::string& path, const std::string& body = "") {
    httplib::Client client = unix_client(path_);
    httplib::Request request;
    request.method = method;
    request.path = path;
    request.body = body;
    if (!body.empty()) request.set_header("Content-Type", "application/json");
    const auto answer = client.send(request);
    if (!answer) {
      ADD_FAILURE() << method << " " << path << ": no answer";
      return {};
    }
    EXPECT_EQ(answer->get_header_value("Content-Type"), "application/json") << path;
    return {answer->status, Json::parse(answer->body)};
  }
  Json done(const std::string& method, const std::string& path, const std::string& body = "") {
    const Answer answer = ask(method, path, body);
    EXPECT_EQ(answer.status, 200) << method << " " << path << ": " << answer.json;
    return answer.json;
  }
  void refused(int status, const std::string& sentence_part, const std::string& method,
               const std::string& path, const std::string& body = "") {
    const Answer answer = ask(method, path, body);
    EXPECT_EQ(answer.status, status) << method << " " << path << ": " << answer.json;
    EXPECT_THAT(answer.error(), HasSubstr(sentence_part)) << method << " " << path;
  }
  // Makes a switch with both uplinks and a port group.
  void make_switch() {
    done("POST", "/v1/dvs", R"({"name": "dvs1"})");
    done("PUT", "/v1/dvs/dvs1/portgroups/pg1", R"({"vlan": 7})");
    done("PUT", "/v1/dvs/dvs1/hosts/self", "");
  }

  const std::string path_ = test_path(".sock");
  FakeHost host_;
  FakeMember member_;
  std::unique_ptr<ApiServer> server_;
};

TEST_F(ClusterApi, TellsTheStateOfTheCluster) {
  const Json cluster = done("GET", "/v1/cluster");
  EXPECT_EQ(cluster["host"], "esx-01");
  EXPECT_EQ(cluster["store"]["description"], "fake");
  EXPECT_EQ(cluster["store"]["connected"], true);
  EXPECT_EQ(cluster["store"]["edits"], 2);
  for (const char* member : {"trouble", "conflicts", "live_conflicts", "bad_records", "resyncs"}) {
    EXPECT_TRUE(cluster["store"].contains(member)) << member;
  }
  EXPECT_EQ(cluster["tcp"], Json::parse(R"({"listening": true, "trouble": "", "peers": [
      {"host": "esx-02", "lanes_up": 4, "sessions_up": 3, "reconnects": 2, "trouble": "a lane is down"}]})"));
  EXPECT_EQ(cluster["hca"],
            Json::parse(R"({"device": "mlx5_0", "trouble": "", "pinned_bytes": 4096, "peers": [
      {"host": "esx-02", "up": true, "pipes": 2, "falls": 1, "trouble": ""}]})"));
  const std::string untagged =
      " has no tagged vmknic: pvrdmactl system settings advanced set -o /Net/PVRDMAVmknic -s vmkN -H ";
  EXPECT_EQ(cluster["hosts"],
            (Json{{{"name", "esx-01"}, {"self", true}, {"trouble", "esx-01" + untagged + "esx-01"}},
                  {{"name", "esx-02"}, {"self", false}, {"trouble", "esx-02 is not alive"}}}));
  EXPECT_EQ(done("GET", "/v1/paths")[0]["peer_host"], "esx-01") << "a local path is on this host";
  host_.source.stopping = true;
  refused(503, "the shard takes no questions now", "GET", "/v1/cluster");
}

TEST_F(ClusterApi, MissesNothingBetweenHostsWhereThereIsOnlyOne) {
  done("DELETE", "/v1/hosts/esx-02");
  EXPECT_EQ(done("GET", "/v1/cluster")["hosts"],
            (Json{{{"name", "esx-01"}, {"self", true}, {"trouble", ""}}}));
}

TEST_F(ClusterApi, MissesNoHcaWhereNoHostHasAnRdmaDevice) {
  const auto trouble = [&] { return done("GET", "/v1/cluster")["hca"]["trouble"].get<std::string>(); };
  host_.source.hca.device.clear();
  host_.source.hca.trouble = "this host has no active HCA";
  EXPECT_EQ(trouble(), "this host has no active HCA") << "esx-01 has a device";
  member_.cluster->erase(control::live_host_key("esx-01"));
  EXPECT_EQ(trouble(), "");
}

TEST_F(ClusterApi, MeasuresAnRdmaNic) {
  const Json checked = done("POST", "/v1/hca/check", R"({"memory_mib": 64})");
  EXPECT_EQ(checked["device"], "mlx5_0");
  EXPECT_EQ(checked["memory_mib"], 64);
  EXPECT_EQ(done("POST", "/v1/hca/check")["memory_mib"], 256);
  refused(404, "no RDMA device none", "POST", "/v1/hca/check", R"({"device": "none"})");
  refused(400, "memory_mib", "POST", "/v1/hca/check", R"({"memory_mib": 0})");
}

TEST_F(ClusterApi, ListsAndRemovesHosts) {
  const Json hosts = done("GET", "/v1/hosts");
  ASSERT_EQ(hosts.size(), 2U);
  const Json host = done("GET", "/v1/hosts/self");
  EXPECT_EQ(host, hosts[0]);
  EXPECT_EQ(host["name"], "esx-01");
  EXPECT_EQ(host["self"], true);
  EXPECT_EQ(host["alive"], true);
  EXPECT_EQ(host["vmnics"][1]["name"], "vmnic1");
  EXPECT_EQ(host["rdma_devices"][0]["device"], "mlx5_0");
  EXPECT_EQ(host["ruleset"]["enabled"], false);
  EXPECT_EQ(hosts[1]["self"], false);
  EXPECT_EQ(hosts[1]["alive"], false);
  refused(409, "alive", "DELETE", "/v1/hosts/esx-01");
  EXPECT_EQ(done("DELETE", "/v1/hosts/esx-02"), Json::object());
  refused(404, "esx-02", "DELETE", "/v1/hosts/esx-02");
  refused(404, R"(there is no host "esx-02")", "GET", "/v1/hosts/esx-02");
  refused(400, "a name is", "GET", "/v1/hosts/esx%2002");
}

TEST_F(ClusterApi, EditsVmksAndTheTag) {
  const std::string vmks = "/v1/hosts/self/vmks";
  const Json host = done("POST", vmks, R"({"name": "vmk2", "address": "10.0.0.1"})");
  EXPECT_EQ(host["vmks"], Json::parse(R"([{"name": "vmk2", "address": "10.0.0.1", "tagged": false}])"));
  refused(409, "vmk2", "POST", vmks, R"({"name": "vmk2", "address": "10.0.0.2"})");
  refused(400, "lacks \"address\"", "POST", vmks, R"({"name": "vmk3"})");
  refused(400, "unknown members (mtu)", "POST", vmks,
          R"({"name": "vmk3", "address": "10.0.0.3", "mtu": 9000})");
  refused(400, "10.0.0", "POST", vmks, R"({"name": "vmk3", "address": "10.0.0"})");

  const std::string advanced = "/v1/hosts/self/advanced";
  EXPECT_EQ(done("GET", advanced)[0]["value"], "");
  const Json list = done("PUT", advanced, R"({"path": "/Net/PVRDMAVmknic", "value": "vmk2"})");
  ASSERT_EQ(list.size(), 1U);
  EXPECT_EQ(list[0]["path"], "/Net/PVRDMAVmknic");
  EXPECT_EQ(list[0]["type"], "string");
  EXPECT_EQ(list[0]["value"], "vmk2");
  EXPECT_EQ(list[0]["default"], "");
  EXPECT_EQ(done("GET", "/v1/hosts/self")["pvrdma_vmknic"], "vmk2");
  refused(404, "/Net/Other", "PUT", advanced, R"({"path": "/Net/Other", "value": "vmk2"})");
  refused(404, "vmk9", "PUT", advanced, R"({"path": "/Net/PVRDMAVmknic", "value": "vmk9"})");
  refused(400, "must be a string", "PUT", advanced, R"({"path": "/Net/PVRDMAVmknic", "value": 2})");

  EXPECT_EQ(done("PATCH", vmks + "/vmk2", R"({"address": "10.0.0.8"})")["vmks"],
            Json::parse(R"([{"name": "vmk2", "address": "10.0.0.8", "tagged": true}])"));
  refused(404, "vmk9", "PATCH", vmks + "/vmk9", R"({"address": "10.0.0.8"})");

  refused(409, "tagged", "DELETE", vmks + "/vmk2");
  done("PUT", advanced, R"({"path": "/Net/PVRDMAVmknic", "value": ""})");
  EXPECT_EQ(done("DELETE", vmks + "/vmk2"), Json::object());
  refused(404, "vmk2", "DELETE", vmks + "/vmk2");
  refused(404, "esx-09", "GET", "/v1/hosts/esx-09/advanced");
}

TEST_F(ClusterApi, EditsTheFirewall) {
  const std::string rulesets = "/v1/hosts/esx-01/rulesets";
  EXPECT_EQ(done("GET", rulesets),
            Json::parse(R"([{"name": "pvrdma", "enabled": false, "allow_all": true, "allowed": []}])"));
  EXPECT_EQ(done("PATCH", rulesets + "/pvrdma", R"({"enabled": true})")["enabled"], true);
  EXPECT_EQ(done("PATCH", rulesets + "/pvrdma", R"({"allow_all": false})"),
            Json::parse(R"({"name": "pvrdma", "enabled": true, "allow_all": false, "allowed": []})"));
  refused(400, "enabled", "PATCH", rulesets + "/pvrdma", R"({"enabled": "yes"})");
  refused(404, "sshServer", "PATCH", rulesets + "/sshServer", R"({"enabled": true})");

  EXPECT_EQ(done("POST", rulesets + "/pvrdma/allowed", R"({"network": "10.0.0.0/24"})")["allowed"],
            Json::parse(R"(["10.0.0.0/24"])"));
  refused(409, "10.0.0.0/24", "POST", rulesets + "/pvrdma/allowed", R"({"network": "10.0.0.0/24"})");
  refused(400, "10.0.0.0/99", "POST", rulesets + "/pvrdma/allowed", R"({"network": "10.0.0.0/99"})");
  refused(400, "needs the parameter network", "DELETE", rulesets + "/pvrdma/allowed");
  refused(404, "10.9.0.0/16", "DELETE", rulesets + "/pvrdma/allowed?network=10.9.0.0/16");
  EXPECT_EQ(done("DELETE", rulesets + "/pvrdma/allowed?network=10.0.0.0%2F24")["allowed"], Json::array());

  EXPECT_EQ(done("GET", "/v1/hosts/self")["firewall"], true);
  EXPECT_EQ(done("PATCH", "/v1/hosts/self/firewall", R"({"enabled": false})")["firewall"], false);
  refused(400, "enabled", "PATCH", "/v1/hosts/self/firewall", "{}");

  const Json rules = done("GET", rulesets + "/pvrdma/rules");
  ASSERT_EQ(rules.size(), 2U);
  EXPECT_EQ(rules[0], Json::parse(R"({"ruleset": "pvrdma", "direction": "Inbound", "protocol": "TCP",
                                      "port_type": "Dst", "port_begin": 28250, "port_end": 28250})"));
  EXPECT_EQ(rules[1]["direction"], "Outbound");
  refused(404, "sshServer", "GET", rulesets + "/sshServer/rules");
}

TEST_F(ClusterApi, EditsSwitches) {
  EXPECT_EQ(done("GET", "/v1/dvs"), Json::array());
  EXPECT_EQ(done("POST", "/v1/dvs", R"({"name": "dvs1", "version": "7.0.0", "uplinks": 3})")["uplinks"],
            Json::parse(R"(["uplink1", "uplink2", "uplink3"])"));
  EXPECT_EQ(done("POST", "/v1/dvs", R"({"name": "dvs2"})")["version"], "8.0.0");
  EXPECT_EQ(done("GET", "/v1/dvs").size(), 2U);
  refused(409, "dvs1", "POST", "/v1/dvs", R"({"name": "dvs1"})");
  refused(400, "whole number", "POST", "/v1/dvs", R"({"name": "dvs3", "uplinks": -1})");
  refused(400, "33", "POST", "/v1/dvs", R"({"name": "dvs3", "uplinks": 33})");
  refused(400, "not a name", "POST", "/v1/dvs", R"({"name": "a/b"})");

  EXPECT_EQ(done("PUT", "/v1/dvs/dvs1/hosts/self", "{}")["members"],
            Json::parse(R"([{"host": "esx-01", "uplinks": {}}])"));
  refused(400, "unknown members", "PUT", "/v1/dvs/dvs1/hosts/esx-02", R"({"x": 1})");
  refused(404, "esx-09", "PUT", "/v1/dvs/dvs1/hosts/esx-09");
  const std::string uplink = "/v1/dvs/dvs1/hosts/self/uplinks/uplink1";
  EXPECT_EQ(done("PUT", uplink, R"({"vmnic": "vmnic0"})")["members"][0]["uplinks"],
            Json::parse(R"({"uplink1": "vmnic0"})"));
  refused(404, "vmnic7", "PUT", uplink, R"({"vmnic": "vmnic7"})");
  refused(400, "lacks \"vmnic\"", "PUT", uplink, "{}");
  EXPECT_EQ(done("PUT", uplink, R"({"vmnic": ""})")["members"][0]["uplinks"], Json::object());

  const std::string off = R"("native_endpoints": false, "native_peers": []})";
  EXPECT_EQ(done("PUT", "/v1/dvs/dvs1/portgroups/pg1", R"({"vlan": 7})")["portgroups"],
            Json::parse(R"([{"name": "pg1", "vlan": 7, "mtu": 1500, )" + off + "]"));
  done("PUT", "/v1/dvs/dvs1/portgroups/pg2", R"({"mtu": 9000})");
  EXPECT_EQ(done("PATCH", "/v1/dvs/dvs1/portgroups/pg1", R"({"mtu": 4200})")["portgroups"],
            Json::parse(R"([{"name": "pg1", "vlan": 7, "mtu": 4200, )" + off +
                        R"(, {"name": "pg2", "vlan": 0, "mtu": 9000, )" + off + "]"));
  const std::string on = R"({"native_endpoints": true, "native_peers": ["192.168.0.0/16"]})";
  EXPECT_EQ(done("PATCH", "/v1/dvs/dvs1/portgroups/pg1", on)["portgroups"][0],
            Json::parse(R"({"name": "pg1", "vlan": 7, "mtu": 4200, )" + on.substr(1)));
  refused(400, "native_peers", "PATCH", "/v1/dvs/dvs1/portgroups/pg1", R"({"native_peers": ["x"]})");
  refused(400, "native_endpoints", "PATCH", "/v1/dvs/dvs1/portgroups/pg1", R"({"native_endpoints": "on"})");
  EXPECT_EQ(done("PUT", "/v1/dvs/dvs1/portgroups/pg3", R"({"vlan": 7})")["portgroups"][2]["native_endpoints"],
            true);
  done("DELETE", "/v1/dvs/dvs1/portgroups/pg3");
  refused(400, "9001", "PATCH", "/v1/dvs/dvs1/portgroups/pg1", R"({"mtu": 9001})");
  refused(404, "pg3", "PATCH", "/v1/dvs/dvs1/portgroups/pg3", R"({"mtu": 9000})");
  refused(400, "4095", "PUT", "/v1/dvs/dvs1/portgroups/pg3", R"({"vlan": 4095})");
  refused(400, "70000", "PUT", "/v1/dvs/dvs1/portgroups/pg3", R"({"vlan": 70000})");
  EXPECT_EQ(done("DELETE", "/v1/dvs/dvs1/portgroups/pg1"), Json::object());
  refused(404, "pg1", "DELETE", "/v1/dvs/dvs1/portgroups/pg1");
  EXPECT_EQ(done("GET", "/v1/dvs/dvs1")["portgroups"].size(), 1U);

  refused(409, "esx-01", "DELETE", "/v1/dvs/dvs1");
  EXPECT_EQ(done("DELETE", "/v1/dvs/dvs1/hosts/self")["members"], Json::array());
  EXPECT_EQ(done("DELETE", "/v1/dvs/dvs1"), Json::object());
  refused(404, "dvs1", "GET", "/v1/dvs/dvs1");
  refused(404, "dvs1", "DELETE", "/v1/dvs/dvs1");
}

TEST_F(ClusterApi, EditsVms) {
  make_switch();
  EXPECT_EQ(done("GET", "/v1/vms"), Json::array());
  const Json vm = done("POST", "/v1/vms", R"({"name": "VM-01", "hardware_version": 13, "memory_mib": 512,
      "memory_reserved_mib": 512, "adapter": {"portgroup": "pg1", "profile": "esxi", "doorbells": "trapped"}})");
  EXPECT_EQ(vm["host"], "esx-01");
  EXPECT_EQ(vm["power"], "off");
  EXPECT_EQ(vm["power_on_refusal"], "");
  EXPECT_EQ(vm["adapter"]["dvs"], "dvs1");
  EXPECT_EQ(vm["adapter"]["protocol"], "v1");
  EXPECT_EQ(vm["adapter"]["profile"], "esxi");
  EXPECT_EQ(vm["adapter"]["doorbells"], "trapped");
  EXPECT_EQ(vm["adapter"]["socket"], "/run/pvrdma/VM-01.sock");
  EXPECT_EQ(done("GET", "/v1/vms/VM-01"), vm);

  const std::string other = R"("hardware_version": 14, "memory_mib": 512)";
  refused(404, "pg9", "POST", "/v1/vms",
          R"({"name": "VM-02", )" + other + R"(, "adapter": {"portgroup": "pg9"}})");
  refused(404, "VM-02", "GET", "/v1/vms/VM-02");  // neither the VM nor its adapter was created
  refused(400, "lacks \"adapter.portgroup\"", "POST", "/v1/vms",
          R"({"name": "VM-02", )" + other + R"(, "adapter": {}})");
  refused(400, "adapter.vlan", "POST", "/v1/vms",
          R"({"name": "VM-02", )" + other + R"(, "adapter": {"portgroup": "pg1", "vlan": 1}})");
  refused(400, "lacks \"memory_mib\"", "POST", "/v1/vms", R"({"name": "VM-02", "hardware_version": 14})");
  refused(409, "VM-01", "POST", "/v1/vms", R"({"name": "VM-01", )" + other + "}");
  EXPECT_EQ(done("POST", "/v1/vms", R"({"name": "VM-02", "host": "esx-02", )" + other + "}")["adapter"],
            nullptr);
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-02", R"({"host": "self", "memory_mib": 1024})")["memory_mib"], 1024);
  EXPECT_EQ(done("GET", "/v1/vms/VM-02")["host"], "esx-01");
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-02", R"({"memory_reserved_mib": 1024})")["memory_reserved_mib"], 1024);
  refused(400, "protocol", "PATCH", "/v1/vms/VM-02", R"({"protocol": "v3"})");
  refused(400, "unknown members (cpus)", "PATCH", "/v1/vms/VM-02", R"({"cpus": 2})");

  const std::string adapter = "/v1/vms/VM-02/adapter";
  EXPECT_EQ(done("PUT", adapter, R"({"mac": "52:54:00:aa:00:01", "dvs": "dvs1", "portgroup": "pg1",
                                     "protocol": "v1"})")["adapter"]["mac"],
            "52:54:00:aa:00:01");
  refused(409, "VM-02", "PUT", adapter, R"({"portgroup": "pg1"})");
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-02", R"({"protocol": "v2"})")["adapter"]["protocol"], "v2");
  refused(400, "doorbells", "PATCH", "/v1/vms/VM-02", R"({"doorbells": "polled"})");
  EXPECT_EQ(done("GET", "/v1/vms/VM-02")["adapter"]["doorbells"], to_text(kDoorbellModeDefault));
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-02", R"({"doorbells": "trapped"})")["adapter"]["doorbells"], "trapped");
  EXPECT_EQ(done("DELETE", adapter)["adapter"], nullptr);
  refused(404, "VM-02", "DELETE", adapter);

  EXPECT_EQ(done("POST", "/v1/vms/VM-01/upgrade", R"({"hardware_version": 14})")["adapter"]["protocol"],
            "v1");
  refused(409, "only go up", "POST", "/v1/vms/VM-01/upgrade", R"({"hardware_version": 13})");
  refused(400, "lacks", "POST", "/v1/vms/VM-01/upgrade", "{}");

  member_.cluster->put(control::power_key("VM-01"), "esx-01");
  EXPECT_EQ(done("GET", "/v1/vms/VM-01")["power"], "on");
  refused(409, "VM-01", "DELETE", "/v1/vms/VM-01");
  EXPECT_EQ(done("DELETE", "/v1/vms/VM-02"), Json::object());
  refused(404, "VM-02", "DELETE", "/v1/vms/VM-02");
}

TEST_F(ClusterApi, ARefusalNamesTheMemberThatItIsAbout) {
  make_switch();
  done("POST", "/v1/hosts/self/vmks", R"({"name": "vmk2", "address": "10.0.0.1"})");
  done("POST", "/v1/vms", R"({"name": "VM-01", "hardware_version": 13, "memory_mib": 512, "adapter":
      {"portgroup": "pg1", "mac": "52:54:00:00:00:01", "addresses": ["10.1.0.1"]}})");
  const auto vm = [](const std::string& name, const std::string& more) {
    return R"({"name": ")" + name + R"(", "hardware_version": 13, )" + more + "}";
  };
  const auto adapter = [&](const std::string& more) {
    return vm("VM-02", R"("memory_mib": 512, "adapter": {"portgroup": "pg1")" + more + "}");
  };
  const std::string vmks = "/v1/hosts/self/vmks";
  const struct {
    std::string method, path, body, field;
  } kRefused[] = {
      {"POST", "/v1/dvs", R"({"name": "dvs1"})", "name"},
      {"POST", "/v1/dvs", R"({"name": "a b"})", "name"},
      {"POST", "/v1/dvs", R"({"name": "x", "version": "new"})", "version"},
      {"PUT", "/v1/dvs/dvs1/hosts/self/uplinks/uplink1", R"({"vmnic": "vmnic9"})", "vmnic"},
      {"PUT", "/v1/dvs/dvs1/portgroups/pg2", R"({"vlan": 7, "native_endpoints": true})", "native_endpoints"},
      {"POST", vmks, R"({"name": "eth0", "address": "10.0.0.2"})", "name"},
      {"POST", vmks, R"({"name": "vmk2", "address": "10.0.0.2"})", "name"},
      {"POST", vmks, R"({"name": "vmk3", "address": "10.0.0.1"})", "address"},
      {"POST", vmks, R"({"name": "vmk3", "address": "10.0"})", "address"},
      {"PUT", "/v1/hosts/self/advanced", R"({"path": "/Net/PVRDMAVmknic", "value": "vmk9"})", "value"},
      {"PATCH", "/v1/hosts/self/rulesets/pvrdma", R"({"allowed": ["10.0.0.0/99"]})", "allowed"},
      {"POST", "/v1/vms", vm("VM-01", R"("memory_mib": 512)"), "name"},
      {"POST", "/v1/vms", vm("VM-02", R"("memory_mib": 512, "host": "esx-09")"), "host"},
      {"POST", "/v1/vms", vm("VM-02", R"("memory_mib": 2)"), "memory_mib"},
      {"POST", "/v1/vms", vm("VM-02", R"("memory_mib": 512, "memory_reserved_mib": 513)"),
       "memory_reserved_mib"},
      {"POST", "/v1/vms", adapter(R"(, "mac": "52:54:00:00:00:01")"), "adapter.mac"},
      {"POST", "/v1/vms", adapter(R"(, "mac": "53:54:00:00:00:02")"), "adapter.mac"},
      {"POST", "/v1/vms", adapter(R"(, "protocol": "v2")"), "adapter.protocol"},
      {"POST", "/v1/vms", adapter(R"(, "addresses": ["10.1.0.1"])"), "adapter.addresses"},
      {"POST", "/v1/vms", adapter(R"(, "dvs": "dvs9")"), "adapter.dvs"},
      {"POST", "/v1/vms", adapter(R"(, "owner": "no such user")"), "adapter.owner"},
      {"POST", "/v1/vms", adapter(R"(, "group": "no such group")"), "adapter.group"},
      {"PATCH", "/v1/vms/VM-01", R"({"portgroup": "pg9"})", "portgroup"},
      {"PATCH", "/v1/vms/VM-01", R"({"owner": "no such user"})", "owner"},
      {"POST", "/v1/vms/VM-01/upgrade", R"({"hardware_version": 13})", "hardware_version"},
  };
  for (const auto& each : kRefused) {
    const Answer answer = ask(each.method, each.path, each.body);
    EXPECT_EQ(answer.json.value("field", ""), each.field)
        << each.path << " " << each.body << ": " << answer.json;
  }
  const Answer whole = ask("PUT", "/v1/dvs/dvs1/hosts/self");
  EXPECT_FALSE(whole.json.contains("field")) << "the body has no such member: " << whole.json;
}

TEST_F(ClusterApi, TellsWhichAdaptersThisHostCannotServe) {
  make_switch();
  done("PUT", "/v1/dvs/dvs1/hosts/esx-02", "");
  const std::string spec = R"("hardware_version": 14, "memory_mib": 512, "memory_reserved_mib": 512,
                              "adapter": {"portgroup": "pg1"}})";
  done("POST", "/v1/vms", R"({"name": "VM-01", "host": "esx-01", )" + spec);
  done("POST", "/v1/vms", R"({"name": "VM-02", "host": "esx-01", )" + spec);
  done("POST", "/v1/vms", R"({"name": "VM-03", "host": "esx-02", )" + spec);
  host_.source.not_served = {{"VM-02", "its socket is in use"}, {"VM-03", "it was here a moment ago"}};
  EXPECT_EQ(done("GET", "/v1/vms/VM-01")["not_served"], "");
  EXPECT_EQ(done("GET", "/v1/vms/VM-02")["not_served"], "its socket is in use");
  EXPECT_EQ(done("GET", "/v1/vms/VM-02")["power_on_refusal"], "") << "no rule forbids it";
  EXPECT_EQ(done("GET", "/v1/vms/VM-03")["not_served"], "") << "another host's";
  EXPECT_EQ(done("GET", "/v1/vms")[1]["not_served"], "its socket is in use");
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-02", R"({"protocol": "v1"})")["not_served"], "its socket is in use");
  host_.source.stopping = true;
  EXPECT_EQ(done("GET", "/v1/vms/VM-02")["not_served"], "") << "what is known is told";
}

TEST_F(ClusterApi, AnOwnerMustBeKnownOnTheHostThatAnswers) {
  make_switch();
  done("PUT", "/v1/dvs/dvs1/hosts/esx-02", "");
  const auto vm = [](const std::string& name, const std::string& host, const std::string& owner) {
    return R"({"name": ")" + name + R"(", "host": ")" + host +
           R"(", "hardware_version": 14, "memory_mib": 512, "adapter": {"portgroup": "pg1")" + owner + "}}";
  };
  const std::string nosuch = R"(, "owner": "nosuch")";
  const std::string why = "this host has no user nosuch: make it or name another";
  refused(400, "the adapter of VM VM-01 cannot be given to its owner: " + why, "POST", "/v1/vms",
          vm("VM-01", "esx-01", nosuch));
  refused(404, "VM-01", "GET", "/v1/vms/VM-01");
  done("POST", "/v1/vms", vm("VM-01", "esx-01", R"(, "owner": "root")"));
  refused(400, why, "PATCH", "/v1/vms/VM-01", R"({"owner": "nosuch"})");
  refused(400, "no group nosuch", "PATCH", "/v1/vms/VM-01", R"({"group": "nosuch"})");
  done("POST", "/v1/vms", vm("VM-02", "esx-02", nosuch));
  refused(400, why, "PATCH", "/v1/vms/VM-02", R"({"host": "self"})");
  done("POST", "/v1/vms",
       R"({"name": "VM-03", "host": "esx-02", "hardware_version": 14, "memory_mib": 512})");
  EXPECT_EQ(done("PATCH", "/v1/vms/VM-03", R"({"host": "self"})")["host"], "esx-01") << "it has no adapter";
}

TEST_F(ClusterApi, TellsHowToStartAVm) {
  make_switch();
  const std::string spec = R"("hardware_version": 14, "memory_mib": 512, "adapter": {"portgroup": "pg1"}})";
  const Json vm = done("POST", "/v1/vms", R"({"name": "VM-01", "memory_reserved_mib": 512, )" + spec);
  const Json arguments = done("GET", "/v1/vms/VM-01/qemu-args")["arguments"];
  EXPECT_EQ(arguments[0], "-object");
  EXPECT_THAT(arguments.dump(), HasSubstr("/run/pvrdma/VM-01.sock"));
  EXPECT_THAT(arguments.dump(), HasSubstr("mac=" + vm["adapter"]["mac"].get<std::string>()));
  const std::string xml = done("GET", "/v1/vms/VM-01/libvirt-xml")["xml"];
  EXPECT_THAT(xml, HasSubstr("<name>VM-01</name>"));

  const Json greedy = done("POST", "/v1/vms", R"({"name": "VM-02", )" + spec);
  EXPECT_THAT(greedy["power_on_refusal"].get<std::string>(), HasSubstr("reserved"));
  for (const char* what : {"/qemu-args", "/libvirt-xml"}) {
    refused(409, greedy["power_on_refusal"], "GET", std::string("/v1/vms/VM-02") + what);
    refused(404, "VM-09", "GET", std::string("/v1/vms/VM-09") + what);
  }
  member_.cluster->erase(control::live_host_key("esx-01"));
  refused(409, "not alive", "GET", "/v1/vms/VM-01/qemu-args");
}

TEST_F(ClusterApi, TheMetadataOfALibvirtDomainMakesTheVmAgain) {
  make_switch();
  const Json vm =
      done("POST", "/v1/vms",
           R"({"name": "VM-01", "hardware_version": 13, "memory_mib": 512, "memory_reserved_mib": 512,
       "adapter": {"portgroup": "pg1", "profile": "esxi", "doorbells": "mapped", "addresses": ["10.0.0.1"], "owner": "root"}})");
  std::string definition = done("GET", "/v1/vms/VM-01/libvirt-xml")["xml"];
  definition = definition.substr(definition.find('>', definition.find("<pvrdma:vm")) + 1);
  definition = definition.substr(0, definition.find('<'));
  constexpr std::string_view kQuote = "&quot;";
  for (auto at = definition.find(kQuote); at != std::string::npos; at = definition.find(kQuote))
    definition.replace(at, kQuote.size(), "\"");
  done("DELETE", "/v1/vms/VM-01");
  EXPECT_EQ(done("POST", "/v1/vms", definition), vm);
}

TEST_F(ClusterApi, StartsAMotionAsItIsWished) {
  const motion::MotionWish defaults;
  done("POST", "/v1/vms/VM-01/motion", R"({"to": "esx-02", "max_pause_ms": 0})");
  EXPECT_EQ(host_.motions.started.vm, "VM-01");
  EXPECT_EQ(host_.motions.started.to, "esx-02");
  EXPECT_EQ(host_.motions.started.max_pause, defaults.max_pause) << "0 is the default";
  EXPECT_EQ(host_.motions.started.patience, defaults.patience);
  EXPECT_EQ(host_.motions.started.leader, motion::Leader::kDaemons);

  done("POST", "/v1/vms/VM-01/motion",
       R"({"to": "esx-02", "leader": "libvirt", "max_pause_ms": 20, "patience_s": 3, "monitor": "/qmp"})");
  EXPECT_EQ(host_.motions.started.max_pause, std::chrono::milliseconds(20));
  EXPECT_EQ(host_.motions.started.patience, std::chrono::seconds(3));
  EXPECT_EQ(host_.motions.started.monitor, "/qmp");
  EXPECT_EQ(host_.motions.started.leader, motion::Leader::kLibvirt);

  refused(400, "must be pvrdmad or libvirt", "POST", "/v1/vms/VM-01/motion",
          R"({"to": "esx-02", "leader": "vCenter"})");
}

TEST_F(ClusterApi, SaysThatTheStoreIsAway) {
  member_.store->go_away("connection refused");
  refused(503, "connection refused", "POST", "/v1/dvs", R"({"name": "dvs1"})");
  EXPECT_EQ(done("GET", "/v1/hosts").size(), 2U) << "what is known is told";
  EXPECT_EQ(done("GET", "/v1/cluster")["store"]["trouble"], "connection refused");
}

TEST_F(ClusterApi, AddsTheClusterToTheMetrics) {
  const auto answer = unix_client(path_).Get("/metrics");
  ASSERT_TRUE(answer);
  for (const char* line :
       {"pvrdma_store_connected 1\n", "pvrdma_store_edits_total 2\n", "pvrdma_tcp_listening 1\n",
        "pvrdma_tcp_lanes_up{peer=\"esx-02\"} 4\n", "pvrdma_tcp_sessions_up{peer=\"esx-02\"} 3\n",
        "pvrdma_tcp_reconnects_total{peer=\"esx-02\"} 2\n", "pvrdma_hca_up{peer=\"esx-02\"} 1\n",
        "pvrdma_hca_peer_falls_total{peer=\"esx-02\"} 1\n",
        "pvrdma_path_messages_total{adapter=\"VM-01\",path=\"tcp\"} 3\n"}) {
    EXPECT_THAT(answer->body, HasSubstr(line));
  }
}

// curl sends neither Content-Length nor Transfer-Encoding when it has no body.
TEST_F(ClusterApi, AnswersAtOnceWhenNoBodyIsAnnounced) {
  done("POST", "/v1/dvs", R"({"name": "dvs1"})");
  const std::string answer =
      answer_to(path_, "DELETE /v1/dvs/dvs1 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answer, HasSubstr("200 OK"));
  EXPECT_TRUE(member_.plane->inventory()->switches.empty());
}

}  // namespace
}  // namespace pvrdma::api
