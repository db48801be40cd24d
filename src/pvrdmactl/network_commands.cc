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
        fmt::format("there is no firewall ruleset {}: see network firewall ruleset list", wanted->second));
  }
  return kept;
}

std::string nic_list_text(const Json& nics) {
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
  return table.text();
}

std::string interface_list_text(const Json& interfaces) {
  std::string text;
  for (const Json& vmk : interfaces) {
    Properties properties(text_at(vmk, "name"));
    properties.add("Name", text_at(vmk, "name"));
    properties.add("IP Address", text_at(vmk, "address"));
    properties.add("Netstack Instance", "defaultTcpipStack");
    properties.add("PVRDMA", true_false_at(vmk, "tagged"));
    text += (text.empty() ? "" : "\n") + properties.text();
  }
  return text;
}

std::string ruleset_list_text(const Json& list) {
  Table table({{"Name"}, {"Enabled", Align::kRight}});
  for (const Json& ruleset : list) table.add({text_at(ruleset, "name"), true_false_at(ruleset, "enabled")});
  return table.text();
}

std::string rule_list_text(const Json& rules) {
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
  return table.text();
}

std::string allowed_list_text(const Json& list) {
  Table table({{"Ruleset"}, {"Allowed IP Addresses"}});
  for (const Json& ruleset : list) {
    table.add(
        {text_at(ruleset, "name"), bool_at(ruleset, "allow_all") ? "All" : joined(ruleset.at("allowed"))});
  }
  return table.text();
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
           .text = interface_list_text},
          {.words = "network ip interface remove",
           .help = "forget a VMkernel adapter; the address stays with the host",
           .arguments = {interface_name(""), host_option()},
           .method = Method::kDelete,
           .path = "/v1/hosts/{host}/vmks/{interface-name}"}};
}

std::vector<Command> ruleset_commands() {
  return {{.words = "network firewall ruleset list",
           .help = "list the firewall rulesets",
           .arguments = {optional(ruleset_id()), host_option()},
           .path = "/v1/hosts/{host}/rulesets",
           .select = rulesets,
           .text = ruleset_list_text},
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
           .text = rule_list_text},
          {.words = "network firewall ruleset allowedip add",
           .help = "admit an address or a network",
           .arguments = {ip_address("/network"), ruleset_id(), host_option()},
           .method = Method::kPost,
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}/allowed"},
          {.words = "network firewall ruleset allowedip list",
           .help = "list the addresses that each ruleset admits",
           .arguments = {optional(ruleset_id()), host_option()},
           .path = "/v1/hosts/{host}/rulesets",
           .select = rulesets,
           .text = allowed_list_text},
          {.words = "network firewall ruleset allowedip remove",
           .help = "remove an address or a network from those admitted",
           .arguments = {ip_address(""), ruleset_id(), host_option()},
           .method = Method::kDelete,
           .path = "/v1/hosts/{host}/rulesets/{ruleset-id}/allowed?network={ip-address}"}};
}

}  // namespace

Section network_commands() {
  Section section{.namespaces = {{"network", "NICs, VMkernel adapters and firewall of a host"},
                                 {"network nic", "physical NICs"},
                                 {"network ip", "addresses"},
                                 {"network ip interface", "VMkernel adapters"},
                                 {"network firewall", "who may reach the host's PVRDMA port"},
                                 {"network firewall ruleset", "firewall rulesets"},
                                 {"network firewall ruleset rule", "ports of a ruleset"},
                                 {"network firewall ruleset allowedip", "addresses that a ruleset admits"}},
                  .commands = {{.words = "network nic list",
                                .help = "list the host's physical NICs",
                                .arguments = {host_option()},
                                .path = "/v1/hosts/{host}",
                                .select = vmnics,
                                .text = nic_list_text}}};
  std::ranges::move(interface_commands(), std::back_inserter(section.commands));
  std::ranges::move(ruleset_commands(), std::back_inserter(section.commands));
  return section;
}

}  // namespace pvrdma::ctl
