#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <unistd.h>

#include "control/config/config.h"

namespace pvrdma::control {
namespace {

// In configurations and sentences, FOLDER stands for the test's folder.
class ClusterConfigTest : public testing::Test {
 protected:
  ClusterConfigTest() { std::filesystem::create_directories(folder_); }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string file(const std::string& name, const std::string& text) {
    const std::string path = folder_ + "/" + name;
    std::ofstream(path) << text;
    return path;
  }

  static std::string replaced(std::string text, const std::string& from, const std::string& to) {
    for (auto at = text.find(from); at != std::string::npos; at = text.find(from, at + to.size())) {
      text.replace(at, from.size(), to);
    }
    return text;
  }

  Result<Config> load(const std::string& toml) {
    return load_config({.file = file("pvrdmad.toml", replaced(toml, "FOLDER", folder_))});
  }
  std::string mistake(const std::string& toml) {
    const auto config = load(toml);
    return config ? "no mistake" : replaced(config.error().message, folder_ + "/", "");
  }

  const std::string folder_ = testing::TempDir() + "cluster_config_" +
                              testing::UnitTest::GetInstance()->current_test_info()->name() + "_" +
                              std::to_string(::getpid());
};

TEST_F(ClusterConfigTest, AHostAloneHasDefaults) {
  const auto config = load("[host]\nname = \"esx-01\"\n");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_TRUE(config->cluster);
  EXPECT_TRUE(config->adapters.empty());
  EXPECT_EQ(config->cluster->host_name, "esx-01");
  EXPECT_TRUE(config->cluster->vmnics.empty());
  EXPECT_EQ(config->cluster->socket_folder, "/run/pvrdma");
  EXPECT_EQ(std::get<SqliteConfig>(config->cluster->store).path, "/var/lib/pvrdma/store.db");
  EXPECT_EQ(config->cluster->tcp_lanes, 4U);
  EXPECT_EQ(config->cluster->tcp_congestion_control, std::nullopt);
  EXPECT_FALSE(config->cluster->tcp_tls);
  EXPECT_FALSE(config->api);
}

TEST_F(ClusterConfigTest, ReadsTheLinksOfSwitches) {
  const std::string host = "[host]\nname = \"esx-01\"\n";
  const std::string first = "[[roce]]\nlink = \"tap:pvroce0\"\nswitch = \"DSwitch\"\nvlan = 105\n";
  const auto config = load(host + first + "[[roce]]\nlink = \"xdp:veth7\"\nswitch = \"DSwitch\"\n");
  ASSERT_TRUE(config) << config.error().message;
  ASSERT_EQ(config->roce.size(), 2U);
  EXPECT_EQ(config->roce[0].link, (LinkName{LinkKind::kTap, "pvroce0"}));
  EXPECT_EQ(config->roce[0].dvs, "DSwitch");
  EXPECT_EQ(config->roce[0].vlan, 105);
  EXPECT_EQ(config->roce[1].vlan, 0);
  EXPECT_EQ(
      mistake(host + "[[roce]]\nlink = \"tap:a\"\n"),
      "pvrdmad.toml:3: [[roce]] serves no adapter: add switch = \"DSwitch\", a switch of the cluster, or "
      "an [[adapter]] of this daemon");
  EXPECT_EQ(mistake(host + "[[roce]]\nlink = \"tap:a\"\nswitch = \"no name\"\n").substr(0, 67),
            "pvrdmad.toml:5: [[roce]] switch = \"no name\" is not a name: allowed ");
  EXPECT_EQ(mistake(host + "[[roce]]\nlink = \"tap:a\"\nswitch = \"s\"\nvlan = 4095\n"),
            "pvrdmad.toml:6: [[roce]] vlan = 4095 is not allowed: it takes a number from 0 to 4094");
  EXPECT_EQ(mistake(host + "[[roce]]\nlink = \"tap:a\"\nswitch = \"s\"\npeers = []\n"),
            "pvrdmad.toml:6: [[roce]] peers = [] is for a daemon's own adapters: a switch's port groups have "
            "their own, see pvrdmactl dvs portgroup set --native-peers");
  EXPECT_EQ(mistake(host + first + "[[roce]]\nlink = \"xdp:pvroce0\"\nswitch = \"DSwitch\"\n"),
            "pvrdmad.toml:8: [[roce]] link = \"xdp:pvroce0\" is taken: another segment at pvrdmad.toml:4 has "
            "it, choose another");
  EXPECT_EQ(mistake(host + first + first),
            "pvrdmad.toml:8: [[roce]] link = \"tap:pvroce0\" is taken: another segment at pvrdmad.toml:4 has "
            "it, choose another");
}

TEST_F(ClusterConfigTest, ReadsEverythingThereIs) {
  for (const char* name : {"ca", "crt", "key"}) file(name, "pem");
  file("password", "secret\nmore\n");
  file("token", "0123456789abcdef\n");
  file("read_token", "fedcba9876543210\n");
  const auto config = load(R"([host]
name = "esx-01"
vmnics = ["eth1", "eth2"]
socket_folder = "/tmp/sockets"
[store]
type = "etcd"
endpoints = ["http://10.0.0.1:2379", "https://10.0.0.2:2379"]
prefix = "/lab/"
user = "root"
password_file = "FOLDER/password"
ca = "FOLDER/ca"
certificate = "FOLDER/crt"
key = "FOLDER/key"
lease_s = 5
[tcp]
lanes = 2
congestion_control = "reno"
ca = "FOLDER/ca"
certificate = "FOLDER/crt"
key = "FOLDER/key"
[api]
listen = "[fd00::1]:8443"
certificate = "FOLDER/crt"
key = "FOLDER/key"
token_file = "FOLDER/token"
read_token_file = "FOLDER/read_token"
)");
  ASSERT_TRUE(config) << config.error().message;
  const ClusterConfig& cluster = *config->cluster;
  EXPECT_EQ(cluster.vmnics, (std::vector<std::string>{"eth1", "eth2"}));
  EXPECT_EQ(cluster.socket_folder, "/tmp/sockets");
  const auto& etcd = std::get<EtcdConfig>(cluster.store);
  EXPECT_EQ(etcd.endpoints, (std::vector<std::string>{"http://10.0.0.1:2379", "https://10.0.0.2:2379"}));
  EXPECT_EQ(etcd.prefix, "/lab/");
  EXPECT_EQ(etcd.user, "root");
  EXPECT_EQ(etcd.password, "secret");
  EXPECT_EQ(etcd.ca_file, folder_ + "/ca");
  EXPECT_EQ(etcd.lease_seconds, 5U);
  EXPECT_EQ(cluster.tcp_lanes, 2U);
  EXPECT_EQ(cluster.tcp_congestion_control, "reno");
  EXPECT_EQ(cluster.tcp_tls->key, folder_ + "/key");
  EXPECT_EQ(config->api->address.to_string(), "fd00::1");
  EXPECT_EQ(config->api->port, 8443);
  EXPECT_EQ(config->api->token, "0123456789abcdef");
  EXPECT_EQ(config->api->read_token, "fedcba9876543210");
}

TEST_F(ClusterConfigTest, NamesEachMistake) {
  file("pem", "pem");
  file("empty", "");
  file("short", "0123456789abcde\n");
  file("token", "0123456789abcdef\n");
  const std::string host = "[host]\nname = \"esx-01\"\n";
  const std::string api =
      host +
      "[api]\nlisten = \"10.0.0.1:1\"\ncertificate = \"FOLDER/pem\"\nkey = \"FOLDER/pem\"\n"
      "token_file = \"FOLDER/token\"\n";
  const std::pair<std::string, std::string> cases[] = {
      {"[host]\n", "pvrdmad.toml:1: [host] lacks name: add name = \"esx-01\""},
      {"[host]\nname = \"e/1\"\n",
       "pvrdmad.toml:2: [host] name = \"e/1\" is not a name: allowed are 1 to 64 letters, digits, '.', '_' "
       "and "
       "'-'"},
      {"[host]\nname = \"..\"\n",
       "pvrdmad.toml:2: [host] name = \"..\" is not a name: allowed are 1 to 64 letters, digits, '.', '_' "
       "and "
       "'-'"},
      {"[host]\nname = \"self\"\n",
       "pvrdmad.toml:2: [host] name = \"self\" means the host that answers: choose another name"},
      {host + "nic = 1\n", "pvrdmad.toml:3: [host] unknown key nic: allowed are name, vmnics, socket_folder"},
      {host + "vmnics = \"eth0\"\n",
       "pvrdmad.toml:3: [host] vmnics = \"eth0\" has the wrong type: it takes a list of strings, such as "
       "[\"eth1\", \"eth2\"]"},
      {host + "vmnics = [\"eth0\", \"eth0\"]\n",
       "pvrdmad.toml:3: [host] vmnics = [\"eth0\", \"eth0\"] is not a list of network interfaces: give each "
       "one's name "
       "once"},
      {host + "socket_folder = \"run\"\n",
       "pvrdmad.toml:3: [host] socket_folder = \"run\" is not an absolute path: begin it with /"},
      {"[store]\ntype = \"sqlite\"\n[[adapter]]\n",
       "pvrdmad.toml:3: [[adapter]] lacks name: add name = \"VM-01\""},
      {host + "[store]\ntype = \"consul\"\n",
       "pvrdmad.toml:4: [store] type = \"consul\" is not a kind of store: allowed are sqlite, etcd"},
      {host + "[store]\nendpoints = [\"http://a\"]\n",
       "pvrdmad.toml:4: [store] unknown key endpoints: allowed are type, path"},
      {host + "[store]\ntype = \"etcd\"\n",
       "pvrdmad.toml:3: [store] lacks endpoints: add endpoints = [\"http://10.0.0.1:2379\"]"},
      {host + "[store]\ntype = \"etcd\"\nendpoints = [\"10.0.0.1\"]\n",
       "pvrdmad.toml:5: [store] endpoints = [\"10.0.0.1\"] is not a list of endpoints: write each as "
       "http://10.0.0.1:2379"},
      {host + "[store]\ntype = \"etcd\"\nendpoints = [\"http://a\"]\nuser = \"u\"\n",
       "pvrdmad.toml:3: [store] user and password_file belong together: give both or none"},
      {host + "[store]\ntype = \"etcd\"\nendpoints = [\"http://a\"]\nlease_s = 2\n",
       "pvrdmad.toml:6: [store] lease_s = 2 is not allowed: it takes a number from 3 to 600"},
      {host + "[tcp]\nlanes = 17\n",
       "pvrdmad.toml:4: [tcp] lanes = 17 is not allowed: it takes a number from 1 to 16"},
      {host + "[tcp]\nca = \"FOLDER/pem\"\n",
       "pvrdmad.toml:3: [tcp] ca, certificate and key belong together: give all three for TLS between hosts, "
       "or none"},
      {host + "[tcp]\nca = \"/nowhere/ca\"\n",
       "pvrdmad.toml:4: [tcp] ca = \"/nowhere/ca\" cannot be read (No such file or directory): name a file "
       "that the daemon's user may read"},
      {host + "[api]\nlisten = \"10.0.0.1\"\n",
       "pvrdmad.toml:4: [api] listen = \"10.0.0.1\" is not an address and port: write it as 10.0.0.1:8443 or "
       "[fd00::1]:8443"},
      {host + "[api]\nlisten = \"10.0.0.1:1\"\ncertificate = \"FOLDER/pem\"\nkey = \"FOLDER/pem\"\n"
              "token_file = \"FOLDER/short\"\n",
       "pvrdmad.toml:7: [api] token_file = \"short\" holds no token: its first line must have 16 to 256 "
       "visible characters"},
      {host + "[api]\nlisten = \"10.0.0.1:1\"\ncertificate = \"FOLDER/pem\"\nkey = \"FOLDER/pem\"\n"
              "token_file = \"FOLDER/empty\"\n",
       "pvrdmad.toml:7: [api] token_file = \"empty\" is empty: write the secret into its first line"},
      {api + "read_token_file = \"FOLDER/short\"\n",
       "pvrdmad.toml:8: [api] read_token_file = \"short\" holds no token: its first line must have 16 to 256 "
       "visible characters"},
      {api + "read_token_file = \"FOLDER/token\"\n",
       "pvrdmad.toml:8: [api] read_token_file = \"token\" holds the token of token_file, with which a client "
       "may do everything: write another token into it"},
  };
  for (const auto& [toml, sentence] : cases) EXPECT_EQ(mistake(toml), sentence) << toml;
}

TEST_F(ClusterConfigTest, StoreAndTcpNeedAHost) {
  const std::string adapter =
      "[[adapter]]\nname = \"a\"\nsocket = \"/a\"\nmac = \"52:54:00:12:34:51\"\nhardware_version = 14\n";
  for (const std::string table : {"store", "tcp", "hca"}) {
    EXPECT_EQ(mistake("[" + table + "]\n" + adapter),
              "pvrdmad.toml:1: [" + table +
                  "] without [host]: add a [host] table with the host's name, which makes this daemon a "
                  "member of a cluster");
  }
}

}  // namespace
}  // namespace pvrdma::control
