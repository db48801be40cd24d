// "host ..." and "cluster ...": the hosts, and this host's connections to the store and to other hosts.
#include <fmt/core.h>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

// "vmk2", "vmk2 (10.0.0.1)" or "-".
std::string tagged(const Json& host) {
  const std::string name = text_at(host, "pvrdma_vmknic");
  for (const Json& vmk : host.at("vmks")) {
    if (bool_at(vmk, "tagged")) return fmt::format("{} ({})", name, text_at(vmk, "address"));
  }
  return or_dash(name);
}

std::string enabled(const Json& ruleset) {
  return bool_at(ruleset, "enabled") ? "enabled" : "disabled";
}

Table host_list(const Json& list) {
  Table table({{"Name"},
               {"Self", Align::kRight},
               {"Alive", Align::kRight},
               {"Version"},
               {"PVRDMA Vmknic"},
               {"Ruleset"}});
  for (const Json& host : list) {
    table.add({text_at(host, "name"), true_false_at(host, "self"), true_false_at(host, "alive"),
               or_dash(text_at(host, "version")), tagged(host), enabled(host.at("ruleset"))});
  }
  return table;
}

std::string host_text(const Json& host) {
  Properties properties(text_at(host, "name"));
  properties.add("Self", true_false_at(host, "self"));
  properties.add("Alive", true_false_at(host, "alive"));
  properties.add("Version", text_at(host, "version"));
  properties.add("Socket Folder", text_at(host, "socket_folder"));
  properties.add("PVRDMA Vmknic", tagged(host));
  const Json& ruleset = host.at("ruleset");
  properties.add(
      "Ruleset " + text_at(ruleset, "name"),
      fmt::format("{}, admits {}", enabled(ruleset),
                  bool_at(ruleset, "allow_all") ? "all addresses" : or_dash(joined(ruleset.at("allowed")))));
  for (const Json& vmk : host.at("vmks")) {
    properties.add("Vmknic " + text_at(vmk, "name"), text_at(vmk, "address"));
  }
  for (const Json& nic : host.at("vmnics")) {
    properties.add("NIC " + text_at(nic, "name"), fmt::format("{}, link {}", text_at(nic, "netdev"),
                                                              bool_at(nic, "link_up") ? "up" : "down"));
  }
  for (const Json& device : host.at("rdma_devices")) {
    properties.add(
        "RDMA Device " + text_at(device, "name"),
        fmt::format("{}, {}", text_at(device, "device"), bool_at(device, "active") ? "active" : "down"));
  }
  return properties.text();
}

// "NIC Up" of "nic_up".
std::string titled(std::string key) {
  bool first = true;
  for (char& c : key) {
    if (c == '_') c = ' ';
    if (first && c >= 'a' && c <= 'z') c = static_cast<char>(c - 'a' + 'A');
    first = c == ' ';
  }
  return key;
}

std::string plain(const Json& value) {
  return value.is_string() ? or_dash(value.get<std::string>()) : value.dump();
}

Table cluster_hosts(const Json& hosts) {
  Table table({{"Host"}, {"Self", Align::kRight}, {"State"}});
  for (const Json& host : hosts) {
    const std::string trouble = text_at(host, "trouble");
    table.add({text_at(host, "name"), true_false_at(host, "self"), trouble.empty() ? "ready" : trouble});
  }
  return table;
}

std::string cluster_text(const Json& cluster) {
  Properties properties(text_at(cluster, "host"));
  for (const auto& [key, value] : cluster.at("store").items()) {
    properties.add("Store " + titled(key), plain(value));
  }
  const Json& tcp = cluster.at("tcp");
  properties.add("TCP Listening", plain(tcp.at("listening")));
  properties.add("TCP Trouble", plain(tcp.at("trouble")));
  Table peers({{"Peer"},
               {"Lanes Up", Align::kRight},
               {"Sessions Up", Align::kRight},
               {"Reconnects", Align::kRight},
               {"Trouble"}});
  for (const Json& peer : tcp.at("peers")) {
    peers.add({text_at(peer, "host"), digits_at(peer, "lanes_up"), digits_at(peer, "sessions_up"),
               digits_at(peer, "reconnects"), or_dash(text_at(peer, "trouble"))});
  }
  const Json& hca = cluster.at("hca");
  properties.add("HCA Device", plain(hca.at("device")));
  properties.add("HCA Trouble", plain(hca.at("trouble")));
  properties.add("HCA Pinned Memory", mebibytes_at(hca, "pinned_bytes"));
  Table hca_peers({{"HCA Peer"}, {"Up"}, {"Falls", Align::kRight}, {"Trouble"}});
  for (const Json& peer : hca.at("peers")) {
    hca_peers.add({text_at(peer, "host"), plain(peer.at("up")), digits_at(peer, "falls"),
                   or_dash(text_at(peer, "trouble"))});
  }
  const std::string by_tcp = tcp.at("peers").empty() ? "" : "\n" + peers.text();
  const std::string by_hca = hca.at("peers").empty() ? "" : "\n" + hca_peers.text();
  return properties.text() + "\n" + cluster_hosts(cluster.at("hosts")).text() + by_tcp + by_hca;
}

}  // namespace

Section host_commands() {
  return {
      .namespaces = {{"host", "hosts of the cluster"}, {"cluster", "this host's place in the cluster"}},
      .commands = {
          {.words = "host list", .help = "list the hosts", .path = "/v1/hosts", .table = host_list},
          {.words = "host get",
           .help = "show one host",
           .arguments = {{.name = "NAME",
                          .positional = true,
                          .help = "the host; default: the daemon's own",
                          .fallback = "self",
                          .names = Names::kHosts}},
           .path = "/v1/hosts/{NAME}",
           .text = host_text},
          {.words = "host delete",
           .help = "forget a host whose daemon is gone for good",
           .arguments = {named("NAME", "the host", Names::kHosts)},
           .method = Method::kDelete,
           .path = "/v1/hosts/{NAME}"},
          {.words = "cluster get",
           .help = "show the hosts of the cluster, and this host's connections to the store and to its peers",
           .arguments = {other_host()},
           .path = "/v1/cluster",
           .text = cluster_text}}};
}

}  // namespace pvrdma::ctl
