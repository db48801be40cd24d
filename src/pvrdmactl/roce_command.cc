// "dvs roce-rules": the rules that a host's bridge needs for native endpoints. They depend on the cluster's
// configuration (VLAN, MTU, MACs) and on the host's bridge and taps, which are arguments.
#include <algorithm>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/json_fields.h"
#include "pvrdmactl/roce_rules.h"
#include "vocabulary/link_name.h"
#include "vocabulary/mac.h"

namespace pvrdma::ctl {
namespace {

constexpr const char* kCommand = "dvs roce-rules";

std::string names_of(const Json& list, const char* key) {
  std::string names;
  for (const Json& each : list) names += (names.empty() ? "" : ", ") + text_at(each, key);
  return names.empty() ? "none" : names;
}

Result<std::string> device_of(const Values& values, std::string_view option) {
  const std::string& name = values.find(option)->second;
  if (is_interface_name(name)) return name;
  return fail(
      ErrorKind::kInvalid,
      fmt::format("--{}: \"{}\" is not a network device: it takes 1 to 15 letters, digits, '.', '_' and '-'",
                  option, name));
}

Result<void> check_member(const Json& dvs, const std::string& host) {
  const Json& members = dvs.at("members");
  const bool is_member =
      std::ranges::any_of(members, [&](const Json& member) { return text_at(member, "host") == host; });
  if (is_member) return {};
  return fail(fmt::format("host {} is not a member of the distributed switch {}: its members are {}", host,
                          text_at(dvs, "name"), names_of(members, "host")));
}

// The given port group, or the only one.
Result<Json> find_portgroup(const Json& dvs, const Values& values) {
  const std::string name = text_at(dvs, "name");
  const auto asked = values.find("portgroup");
  Json allowed = Json::array();
  for (const Json& each : dvs.at("portgroups")) {
    if (bool_at(each, "native_endpoints") &&
        (asked == values.end() || asked->second == text_at(each, "name"))) {
      allowed.push_back(each);
    }
  }
  const bool one_vlan = !allowed.empty() && std::ranges::all_of(allowed, [&](const Json& each) {
    return number_at(each, "vlan") == number_at(allowed[0], "vlan");
  });
  if (one_vlan) return allowed[0];
  if (allowed.empty()) {
    const std::string which = asked == values.end() ? "NAME" : asked->second;
    return fail(
        fmt::format("no port group{} of the distributed switch {} allows native endpoints: pvrdmactl dvs "
                    "portgroup set {} {} --native-endpoints on",
                    asked == values.end() ? "" : " " + which, name, name, which));
  }
  return fail(
      ErrorKind::kInvalid,
      fmt::format("several networks of the distributed switch {} allow native endpoints: say which with "
                  "--portgroup: {}",
                  name, names_of(allowed, "name")));
}

// The VMs of `host` with adapters in port groups of that VLAN.
Json vms_of(const Json& vms, const Json& dvs, const std::string& host, std::uint64_t vlan) {
  std::set<std::string> portgroups;
  for (const Json& each : dvs.at("portgroups")) {
    if (number_at(each, "vlan") == vlan) portgroups.insert(text_at(each, "name"));
  }
  Json found = Json::array();
  for (const Json& vm : vms) {
    const Json& adapter = vm.at("adapter");
    if (text_at(vm, "host") == host && !adapter.is_null() &&
        text_at(adapter, "dvs") == text_at(dvs, "name") &&
        portgroups.contains(text_at(adapter, "portgroup"))) {
      found.push_back(vm);
    }
  }
  return found;
}

// "VM-01=tap1" with the VM's MAC.
Result<RoceRules::Guest> guest_of(const Json& vms, std::string_view pair) {
  const std::size_t equals = pair.find('=');
  if (equals == std::string_view::npos || !is_interface_name(pair.substr(equals + 1))) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("--taps: \"{}\" is not a VM and its tap: write VM-01=tap1, with commas between", pair));
  }
  const std::string name(pair.substr(0, equals));
  for (const Json& vm : vms) {
    if (text_at(vm, "name") != name) continue;
    const auto mac = Mac::parse(text_at(vm.at("adapter"), "mac"));
    if (!mac) return fail(fmt::format("the daemon's answer has no MAC of VM {}", name));
    return RoceRules::Guest{mac->to_string(), std::string(pair.substr(equals + 1))};
  }
  return fail(fmt::format("--taps: no VM \"{}\" of that host and network: there are {}", name,
                          names_of(vms, "name")));
}

Result<std::vector<RoceRules::Guest>> guests_of(const Json& vms, const Values& values) {
  const auto taps = values.find("taps");
  if (taps == values.end()) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("{} needs --taps, each VM with the tap of its vmxnet3 adapter, as VM-01=tap1: the VMs of "
                    "that host and network are {}",
                    kCommand, names_of(vms, "name")));
  }
  std::vector<RoceRules::Guest> guests;
  std::set<std::string> used;
  for (std::string_view left = taps->second;;) {
    const std::size_t comma = left.find(',');
    auto guest = guest_of(vms, left.substr(0, comma));
    if (!guest) return Failure(std::move(guest).error());
    if (!used.insert(guest->tap).second || !used.insert(guest->mac).second) {
      return fail(
          ErrorKind::kInvalid,
          fmt::format("--taps: \"{}\" has a VM or tap that is given twice: give each once", taps->second));
    }
    guests.push_back(*std::move(guest));
    if (comma == std::string_view::npos) return guests;
    left.remove_prefix(comma + 1);
  }
}

Lines link_table(const std::string& dvs, const RoceRules& rules) {
  Lines lines{"# As root. In the host's pvrdmad.toml:", "#   [[roce]]",
              fmt::format("#   link = \"tap:{}\"", rules.port), fmt::format("#   switch = \"{}\"", dvs)};
  if (rules.vlan != 0) lines.push_back(fmt::format("#   vlan = {}", rules.vlan));
  return lines;
}

Result<Json> compose(const Values& values, const Ask& ask) {
  RoceRules rules;
  const auto bridge = device_of(values, "bridge");
  if (!bridge) return Failure(bridge.error());
  const auto port = device_of(values, "port");
  if (!port) return Failure(port.error());
  const auto dvs = ask("/v1/dvs/" + values.at("DVS"));
  if (!dvs) return Failure(dvs.error());
  const std::string& host = values.at("HOST");
  if (auto member = check_member(*dvs, host); !member) return Failure(std::move(member).error());
  const auto portgroup = find_portgroup(*dvs, values);
  if (!portgroup) return Failure(portgroup.error());
  const auto vms = ask("/v1/vms");
  if (!vms) return Failure(vms.error());
  rules.bridge = *bridge;
  rules.port = *port;
  rules.user = values.at("user");
  rules.vlan = static_cast<std::uint32_t>(number_at(*portgroup, "vlan"));
  rules.mtu_bytes = static_cast<std::uint32_t>(number_at(*portgroup, "mtu"));
  rules.tells_vlans = values.contains("vlan-filtering");
  auto guests = guests_of(vms_of(*vms, *dvs, host, rules.vlan), values);
  if (!guests) return Failure(std::move(guests).error());
  rules.guests = *std::move(guests);
  const bool open_vswitch = values.contains("open-vswitch");
  if (values.contains("remove")) {
    return Json{{"commands", open_vswitch ? open_vswitch_rules_undone(rules) : bridge_rules_undone(rules)}};
  }
  Lines lines = link_table(values.at("DVS"), rules);
  std::ranges::move(open_vswitch ? open_vswitch_rules(rules) : bridge_rules(rules),
                    std::back_inserter(lines));
  return Json{{"commands", std::move(lines)}};
}

std::string commands_text(const Json& answer) {
  std::string text;
  for (const Json& line : answer.at("commands")) text += line.get<std::string>() + "\n";
  return text;
}

Argument flag(std::string name, std::string help) {
  return {.name = std::move(name), .kind = Kind::kFlag, .help = std::move(help), .constant = "true"};
}

}  // namespace

Command roce_rules_command() {
  return {
      .words = kCommand,
      .help = "print the commands that bring RoCE frames from a host's bridge to its pvrdmad",
      .arguments = {named("DVS", "the switch", Names::kSwitches),
                    named("HOST", "the host", Names::kHosts),
                    {.name = "portgroup",
                     .help = "a port group of the network; default: the one that allows native endpoints",
                     .names = Names::kPortGroups},
                    {.name = "bridge", .help = "the host's bridge with the taps", .required = true},
                    {.name = "taps",
                     .kind = Kind::kTexts,
                     .help = "the VMs, each with the tap of its vmxnet3 adapter, separated by commas",
                     .shows = "VM=tap"},
                    {.name = "port", .help = "the tap for pvrdmad; default: pvroce0", .fallback = "pvroce0"},
                    {.name = "user",
                     .help = "the user that pvrdmad runs as; default: pvrdma",
                     .fallback = "pvrdma"},
                    flag("vlan-filtering", "the bridge filters by VLAN"),
                    flag("open-vswitch", "the bridge is an Open vSwitch bridge"),
                    flag("remove", "print the commands that remove the rules")},
      .text = commands_text,
      .compose = compose};
}

}  // namespace pvrdma::ctl
