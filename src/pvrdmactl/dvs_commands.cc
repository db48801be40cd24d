// "dvs ...": distributed switches, with their uplinks, port groups and member hosts.
#include <algorithm>
#include <fmt/core.h>
#include <iterator>
#include <nlohmann/json.hpp>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/table.h"

namespace pvrdma::ctl {
namespace {

Result<Json> portgroups(Json dvs, const Values& /*values*/) {
  return dvs.at("portgroups");
}

std::string count(const Json& list) {
  return std::to_string(list.size());
}

Table dvs_list(const Json& list) {
  Table table({{"Name"},
               {"Id", Align::kRight},
               {"Version"},
               {"Uplinks", Align::kRight},
               {"Port Groups", Align::kRight},
               {"Hosts", Align::kRight}});
  for (const Json& dvs : list) {
    table.add({text_at(dvs, "name"), digits_at(dvs, "id"), text_at(dvs, "version"), count(dvs.at("uplinks")),
               count(dvs.at("portgroups")), count(dvs.at("members"))});
  }
  return table;
}

std::string uplinks_text(const Json& uplinks) {
  std::string text;
  for (const auto& [slot, vmnic] : uplinks.items()) {
    text += fmt::format("{}{}={}", text.empty() ? "" : ", ", slot, vmnic.get<std::string>());
  }
  return text.empty() ? "no uplink" : text;
}

// Which native endpoints its adapters may reach.
std::string native_text(const Json& portgroup) {
  if (!bool_at(portgroup, "native_endpoints")) return "off";
  const Json& peers = portgroup.at("native_peers");
  return peers.empty() ? "any" : joined(peers);
}

std::string portgroup_text(const Json& portgroup) {
  return fmt::format("VLAN {}, MTU {}, native endpoints {}", digits_at(portgroup, "vlan"),
                     digits_at(portgroup, "mtu"), native_text(portgroup));
}

std::string dvs_text(const Json& dvs) {
  Properties properties(text_at(dvs, "name"));
  properties.add("Id", digits_at(dvs, "id"));
  properties.add("Version", text_at(dvs, "version"));
  properties.add("Uplinks", joined(dvs.at("uplinks")));
  for (const Json& portgroup : dvs.at("portgroups")) {
    properties.add("Port Group " + text_at(portgroup, "name"), portgroup_text(portgroup));
  }
  for (const Json& member : dvs.at("members")) {
    properties.add("Host " + text_at(member, "host"), uplinks_text(member.at("uplinks")));
  }
  return properties.text();
}

Table portgroup_list(const Json& list) {
  Table table({{"Name"}, {"VLAN", Align::kRight}, {"MTU", Align::kRight}, {"Native Endpoints"}});
  for (const Json& portgroup : list) {
    table.add({text_at(portgroup, "name"), digits_at(portgroup, "vlan"), digits_at(portgroup, "mtu"),
               native_text(portgroup)});
  }
  return table;
}

Argument the_dvs(std::string name) {
  return named(std::move(name), "the switch", Names::kSwitches);
}

std::vector<Command> switch_commands() {
  Argument name = named("NAME", "the switch");
  name.member = "/name";
  return {
      {.words = "dvs create",
       .help = "make a distributed switch",
       .arguments = {name,
                     {.name = "uplinks",
                      .kind = Kind::kNumber,
                      .help = "how many uplinks a host may give it; default: 2",
                      .member = "/uplinks"},
                     {.name = "version",
                      .kind = Kind::kText,
                      .help = "its version; default: 8.0.0",
                      .member = "/version"}},
       .method = Method::kPost,
       .path = "/v1/dvs",
       .text = dvs_text},
      {.words = "dvs list", .help = "list the distributed switches", .path = "/v1/dvs", .table = dvs_list},
      {.words = "dvs get",
       .help = "show one distributed switch",
       .arguments = {the_dvs("NAME")},
       .path = "/v1/dvs/{NAME}",
       .text = dvs_text},
      {.words = "dvs delete",
       .help = "delete a distributed switch without hosts and VMs",
       .arguments = {the_dvs("NAME")},
       .method = Method::kDelete,
       .path = "/v1/dvs/{NAME}"},
      {.words = "dvs add-host",
       .help = "make a host a member",
       .arguments = {the_dvs("NAME"), named("HOST", "the host", Names::kHosts)},
       .method = Method::kPut,
       .path = "/v1/dvs/{NAME}/hosts/{HOST}",
       .text = dvs_text},
      {.words = "dvs remove-host",
       .help = "remove a host from the members",
       .arguments = {the_dvs("NAME"), named("HOST", "the host", Names::kHosts)},
       .method = Method::kDelete,
       .path = "/v1/dvs/{NAME}/hosts/{HOST}"}};
}

std::vector<Command> port_commands() {
  Argument vmnic = named("VMNIC", "the physical NIC, vmnic0");
  vmnic.member = "/vmnic";
  const Argument mtu{.name = "mtu",
                     .kind = Kind::kNumber,
                     .help = "the longest packet of its network in bytes, 1280 to 9000; default: 1500",
                     .member = "/mtu"};
  Argument new_mtu = mtu;
  new_mtu.help = "the longest packet of its network, 1280 to 9000; adapters follow at their next power-on";
  const Argument natives{.name = "native-endpoints",
                         .kind = Kind::kOnOff,
                         .help = "whether its adapters may reach machines that are not VMs of the cluster",
                         .member = "/native_endpoints"};
  const Argument peers{.name = "native-peers",
                       .kind = Kind::kTexts,
                       .help = "the only such machines: addresses or networks separated by commas, or any",
                       .shows = "networks",
                       .member = "/native_peers"};
  return {{.words = "dvs portgroup add",
           .help = "add a port group",
           .arguments = {the_dvs("DVS"),
                         named("NAME", "the port group"),
                         {.name = "vlan",
                          .kind = Kind::kNumber,
                          .help = "its VLAN, 0 to 4094; default: 0",
                          .member = "/vlan"},
                         mtu,
                         natives,
                         peers},
           .method = Method::kPut,
           .path = "/v1/dvs/{DVS}/portgroups/{NAME}",
           .text = dvs_text},
          {.words = "dvs portgroup set",
           .help = "change a port group",
           .arguments = {the_dvs("DVS"), named("NAME", "the port group", Names::kPortGroups), new_mtu,
                         natives, peers},
           .method = Method::kPatch,
           .path = "/v1/dvs/{DVS}/portgroups/{NAME}",
           .text = dvs_text},
          {.words = "dvs portgroup list",
           .help = "list the port groups of a switch",
           .arguments = {the_dvs("DVS")},
           .path = "/v1/dvs/{DVS}",
           .select = portgroups,
           .table = portgroup_list},
          {.words = "dvs portgroup remove",
           .help = "remove a port group that no VM uses",
           .arguments = {the_dvs("DVS"), named("NAME", "the port group", Names::kPortGroups)},
           .method = Method::kDelete,
           .path = "/v1/dvs/{DVS}/portgroups/{NAME}"},
          {.words = "dvs uplink set",
           .help = "give a physical NIC of a host to an uplink, or free the uplink",
           .arguments = {the_dvs("DVS"),
                         named("HOST", "the host", Names::kHosts),
                         named("UPLINK", "the uplink, uplink1"),
                         vmnic,
                         {.name = "none",
                          .kind = Kind::kFlag,
                          .help = "instead of VMNIC: remove the NIC from the uplink",
                          .required = true,
                          .member = "/vmnic"}},
           .method = Method::kPut,
           .path = "/v1/dvs/{DVS}/hosts/{HOST}/uplinks/{UPLINK}",
           .text = dvs_text}};
}

}  // namespace

Section dvs_commands() {
  Section section{.namespaces = {{"dvs", "distributed switches"},
                                 {"dvs portgroup", "port groups of a distributed switch"},
                                 {"dvs uplink", "physical NICs of a distributed switch"}},
                  .commands = switch_commands()};
  std::ranges::move(port_commands(), std::back_inserter(section.commands));
  section.commands.push_back(roce_rules_command());
  return section;
}

}  // namespace pvrdma::ctl
