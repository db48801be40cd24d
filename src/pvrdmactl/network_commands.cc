// "network ...": physical NICs, VMkernel adapters and the firewall ruleset of a host, in esxcli's words and
// columns.
#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <nlohmann/json.hpp>
#include <utility>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

Result<Json> vmnics(Json host, const Values& /*values*/) {
  return host.at("vmnics");
}

Result<Json> vmks(Json host, const Values& /*values*/) {
  return host.at("vmks");
}

Result<Json> one_vmnic(Json host, const Values& values) {
  const std::string& wanted = values.at("nic-name");
  for (const Json& nic : host.at("vmnics")) {
    if (text_at(nic, "name") == wanted) return nic;
  }
  return fail(fmt::format("there is no physical NIC \"{}\": pvrdmactl network nic list shows them", wanted));
}

// The VMkernel adapters with an IPv4 address, or the one of the given name.
Result<Json> ipv4_vmks(Json host, const Values& values) {
  const auto wanted = values.find("interface-name");
  Json kept = Json::array();
  for (const Json& vmk : host.at("vmks")) {
    const bool is_wanted = wanted == values.end() || text_at(vmk, "name") == wanted->second;
    if (is_wanted && text_at(vmk, "address").find(':') == std::string::npos) kept.push_back(vmk);
  }
  if (kept.empty() && wanted != values.end()) {
    return fail(
        fmt::format("there is no VMkernel adapter \"{}\" with an IPv4 address: pvrdmactl network ip "
                    "interface list shows them",
                    wanted->second));
  }
  return kept;
}

// All rulesets, or the one of the given name.
Result<Json> rulesets(Json list, const Values& values) {
  const auto wanted = values.find("ruleset-id");
  if (wanted == values.end()) return list;
  Json kept = Json::array();
  for (const Json& ruleset : list) {
    if (text_at(ruleset, "name") == wanted->second) kept.push_back(ruleset);
  }
  if (kept.empty()) {
    return fail(
        fmt::format("there is no firewall ruleset \"{}\": pvrdmactl network firewall ruleset list shows them",
                    wanted->second));
  }
  return kept;
}

Table nic_list(const Json& nics) {
  Table table({{"Name"},
               {"PCI Device"},
               {"Driver"},
               {"Admin Status"},
               {"Link Status"},
               {"Speed", Align::kRight},
               {"Duplex"},
               {"MAC Address"},
               {"MTU", Align::kRight},
               {"Description"}});
  for (const Json& nic : nics) {
    const bool up = bool_at(nic, "link_up");
    // The API reports only the link. A NIC with a link cannot be administratively down.
    table.add({text_at(nic, "name"), or_dash(text_at(nic, "pci_address")), or_dash(text_at(nic, "driver")),
               up ? "Up" : "-", up ? "Up" : "Down", digits_at(nic, "speed_mbps"),
               bool_at(nic, "full_duplex") ? "Full" : "Half", text_at(nic, "mac"), digits_at(nic, "mtu"),
               text_at(nic, "description")});
  }
  return table;
}

// The parts that the daemon knows of what esxcli shows.
Table nic(const Json& nic) {
  Table table({{"Bus Info"},
               {"Driver"},
               {"Link Detected", Align::kRight},
               {"Link Status"},
               {"Name"},
               {"Speed", Align::kRight},
               {"Duplex"},
               {"MAC Address"},
               {"MTU", Align::kRight}},
              Layout::kObject);
  table.add({or_dash(text_at(nic, "pci_address")), or_dash(text_at(nic, "driver")),
             true_false_at(nic, "link_up"), bool_at(nic, "link_up") ? "Up" : "Down", text_at(nic, "name"),
             digits_at(nic, "speed_mbps"), bool_at(nic, "full_duplex") ? "Full" : "Half", text_at(nic, "mac"),
             digits_at(nic, "mtu")});
  return table;
}

Table interface_list(const Json& interfaces) {
  Table table({{"Name"}, {"IP Address"}, {"Netstack Instance"}, {"PVRDMA", Align::kRight}},
              Layout::kTitledBlocks);
  for (const Json& vmk : interfaces) {
    table.add(
        {text_at(vmk, "name"), text_at(vmk, "address"), "defaultTcpipStack", true_false_at(vmk, "tagged")});
  }
  return table;
}

// Netmask and route belong to the host's own network set-up, which the daemon does not read.
Table ipv4_list(const Json& interfaces) {
  Table table({{"Name"},
               {"IPv4 Address"},
               {"IPv4 Netmask"},
               {"IPv4 Broadcast"},
               {"Address Type"},
               {"Gateway"},
               {"DHCP DNS", Align::kRight}});
  for (const Json& vmk : interfaces) {
    table.add({text_at(vmk, "name"), text_at(vmk, "address"), "-", "-", "-", "-", "-"});
  }
  return table;
}

Table firewall(const Json& host) {
  Table table({{"Default Action"}, {"Enabled", Align::kRight}, {"Loaded", Align::kRight}}, Layout::kObject);
  table.add({"DROP", true_false_at(host, "firewall"), "true"});
  return table;
}

Table ruleset_list(const Json& list) {
  Table table({{"Name"}, {"Enabled", Align::kRight}});
  for (const Json& ruleset : list) table.add({text_at(ruleset, "name"), true_false_at(ruleset, "enabled")});
  return table;
}

Table rule_list(const Json& rules) {
  Table table({{"Ruleset"},
               {"Direction"},
               {"Protocol"},
               {"Port Type"},
               {"Port Begin", Align::kRight},
               {"Port End", Align::kRight}});
  for (const Json& rule : rules) {
    table.add({text_at(rule, "ruleset"), text_at(rule, "direction"), text_at(rule, "protocol"),
               text_at(rule, "port_type"), digits_at(rule, "port_begin"), digits_at(rule, "port_end")});
  }
  return table;
}

Table allowed_list(const Json& list) {
  Table table({{"Ruleset"}, {"Allowed IP Addresses"}});
  for (const Json& ruleset : list) {
    table.add(
        {text_at(ruleset, "name"), bool_at(ruleset, "allow_all") ? "All" : joined(ruleset.at("allowed"))});
  }
  return table;
}

std::string allowed_note(const Json& ruleset) {
  if (!bool_at(ruleset, "allow_all")) return "";
  const std::string name = text_at(ruleset, "name");
  return fmt::format(
      "the ruleset {} admits all addresses, so the list has no effect until pvrdmactl network firewall "
      "ruleset "
      "set -r {} -a false",
      name, name);
}

Argument ruleset_id() {
  return {.letter = 'r', .name = "ruleset-id", .help = "the ruleset, pvrdma", .required = true};
}

Argument optional(Argument argument) {
  argument.required = false;
  return argument;
}

Argument ip_address(std::string member) {
  return {.letter = 'i',
          .name = "ip-address",
          .kind = Kind::kText,
          .help = "an address, or a network such as 10.0.0.0/24",
          .required = true,
          .member = std::move(member)};
}

Argument interface_name(std::string member) {
  return {.letter = 'i',
          .name = "interface-name",
          .help = "the VMkernel adapter, vmk2",
          .required = true,
          .member = std::move(member)};
}

std::vector<Command> interface_commands() {
  return {{.words = "network ip interface add",
           .help = "make an address of the host a VMkernel adapter",
           .arguments = {interface_name("/name"),
                         {.name = "address",
                          .kind = Kind::kText,
                          .help = "the address, which the host has or will get",
                          .required = true,
                          .member = "/address"},
                         host_option()},
           .method = Method::kPost,
           .path = "/v1/hosts/{host}/vmks"},
          {.words = "network ip interface list",
           .help = "list the host's VMkernel adapters",
           .arguments = {host_option()},
           .path = "/v1/hosts/{host}",
           .select = vmks,
           .table = interface_list},
          {.words = "network ip interface remove",
           .help = "forget a VMkernel adapter; the address stays with the host",
           .arguments = {interface_name(""), host_option()},
           .method = Method::kDelete,
           .path = "/v1/hosts/{host}/vmks/{interface-name}"}};
}

std::vector<Command> ipv4_commands() {
  return {{.words = "network ip interface ipv4 get",
           .help = "list the IPv4 addresses of the host's VMkernel adapters",
           .arguments = {optional(interface_name("")), host_option()},
           .path = "/v1/hosts/{host}",
           .select = ipv4_vmks,
           .table = ipv4_list},
          {.words = "network ip interface ipv4 set",
           .help = "tell a VMkernel adapter that the host's address has changed",
           .arguments = {interface_name(""),
                         {.letter = 'I',
                          .name = "ipv4",
                          .kind = Kind::kText,
                          .help = "the address, which the host has or will get",
                          .required = true,
                          .member = "/address"},
                         {.letter = 'N',
                          .name = "netmask",
                          .kind = Kind::kText,
                          .help = "accepted and not used: the host's own network set-up has it",
                          .unused = true},
                         {.letter = 't',
                          .name = "type",
                          .kind = Kind::kChoice,
                          .help = "accepted and not used: an address is always static",
                          .choices = {"static"},
                          .unused = true},
                         host_option()},
           .method = Method::kPatch,
           .path = "/v1/hosts/{host}/vmks/{interface-name}"}};
}

std::vector<Command> firewall_commands() {
  return {{.words = "network firewall get",
           .help = "show the host's firewall",
           .arguments = {host_option()},
           .path = "/v1/hosts/{host}",
           .table = firewall},
          {.words = "network firewall set",
           .help = "enable or disable the host's firewall",
           .arguments = {{.letter = 'e',
                          .name = "enabled",
                          .kind = Kind::kBool,
                          .help = "false: PVRDMA listens and admits any address, whatever the rulesets say",
                          .required = true,
                          .member = "/enabled"},
                         host_option()},
           .method = Method::kPatch,
           .path = "/v1/hosts/{host}/firewall"},
          {.words = "network firewall refresh",
           .help = "do nothing but check that the host exists: each change is in effect at once",
           .arguments = {host_option()},
           .path = "/v1/hosts/{host}/rulesets"}};
}

std::vector<Command> ruleset_commands() {
  return {{.words = "network firewall ruleset list",
           .help = "list the firewall rulesets",
           .arguments = {optional(ruleset_id()), host_option()},
           .path = "/v1/hosts/{host}/rulesets",
           .select = rulesets,
           .table = ruleset_list},
          {.words = "network firewall ruleset set",
           .help = "enable or disable a ruleset, or change which addresses it admits",
           .arguments = {{.letter = 'a',
                          .name = "allowed-all",
                          .kind = Kind::kBool,
                          .help = "true: any address; false: those that allowedip list shows",
                          .member = "/allow_all"},
                         {.letter = 'e',
                          .name = "enabled",
                          .kind = Kind::kBool,
                          .help = "whether the host listens and connects at all",
                          .member = "/enabled"},
                         ruleset_id(),
                         host_option()},
           .method = Method::kPatch,
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}"},
          {.words = "network firewall ruleset rule list",
           .help = "list the ports of a ruleset",
           .arguments = {[] {
                           Argument argument = optional(ruleset_id());
                           argument.fallback = "pvrdma";
                           return argument;
                         }(),
                         host_option()},
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}/rules",
           .table = rule_list},
          {.words = "network firewall ruleset allowedip add",
           .help = "admit an address or a network",
           .arguments = {ip_address("/network"), ruleset_id(), host_option()},
           .method = Method::kPost,
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}/allowed",
           .note = allowed_note},
          {.words = "network firewall ruleset allowedip list",
           .help = "list the addresses that each ruleset admits",
           .arguments = {optional(ruleset_id()), host_option()},
           .path = "/v1/hosts/{host}/rulesets",
           .select = rulesets,
           .table = allowed_list},
          {.words = "network firewall ruleset allowedip remove",
           .help = "remove an address or a network from those admitted",
           .arguments = {ip_address(""), ruleset_id(), host_option()},
           .method = Method::kDelete,
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}/allowed?network={ip-address}",
           .note = allowed_note}};
}

}  // namespace

Section network_commands() {
  Section section{.namespaces = {{"network", "NICs, VMkernel adapters and firewall of a host"},
                                 {"network nic", "physical NICs"},
                                 {"network ip", "addresses"},
                                 {"network ip interface", "VMkernel adapters"},
                                 {"network ip interface ipv4", "IPv4 addresses of VMkernel adapters"},
                                 {"network firewall", "who may reach the host's PVRDMA port"},
                                 {"network firewall ruleset", "firewall rulesets"},
                                 {"network firewall ruleset rule", "ports of a ruleset"},
                                 {"network firewall ruleset allowedip", "addresses that a ruleset admits"}},
                  .commands = {{.words = "network nic list",
                                .help = "list the host's physical NICs",
                                .arguments = {host_option()},
                                .path = "/v1/hosts/{host}",
                                .select = vmnics,
                                .table = nic_list},
                               {.words = "network nic get",
                                .help = "show one physical NIC of the host",
                                .arguments = {{.letter = 'n',
                                               .name = "nic-name",
                                               .help = "the physical NIC, vmnic0",
                                               .required = true},
                                              host_option()},
                                .path = "/v1/hosts/{host}",
                                .select = one_vmnic,
                                .table = nic}}};
  std::ranges::move(interface_commands(), std::back_inserter(section.commands));
  for (auto commands : {ipv4_commands(), firewall_commands(), ruleset_commands()}) {
    std::ranges::move(commands, std::back_inserter(section.commands));
  }
  return section;
}

}  // namespace pvrdma::ctl
