#include <algorithm>
#include <fmt/core.h>

#include "base/mapped_address.h"
#include "control/model/edit_support.h"
#include "control/model/edits.h"
#include "control/model/values.h"

namespace pvrdma::control::edits {
namespace {

constexpr std::size_t kVmksMax = 64;
constexpr std::size_t kAllowedMax = 256;  // searched for each connection

// Whether the address cannot be an interface's, or not without further information (a zone).
bool is_no_host_address(const IpAddress& address) {
  const auto& raw = address.raw();
  if (address == IpAddress{}) return true;
  if (!address.is_v6()) return raw[0] >= 224;  // multicast, reserved, broadcast
  const bool unspecified = std::all_of(raw.begin(), raw.end(), [](std::uint8_t byte) { return byte == 0; });
  return unspecified || raw[0] == 0xff || is_link_local(raw);
}

Result<Ruleset*> find_ruleset(Inventory& inventory, const std::string& host, const std::string& ruleset) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  if (ruleset == kRuleset) return &(*found)->pvrdma_ruleset;
  return fail(ErrorKind::kNotFound,
              fmt::format("host {} has no firewall ruleset \"{}\": it has {}", host, ruleset, kRuleset));
}

// The address that `text` is, if the vmk may have it.
Result<IpAddress> address_for(const Inventory& inventory, const std::string& host, const std::string& name,
                              const std::string& text) {
  auto parsed = IpAddress::parse(text);
  if (!parsed) return Failure(std::move(parsed).error().about("address"));
  if (is_no_host_address(*parsed)) {
    return fail(ErrorKind::kInvalid,
                fmt::format("{} cannot be the address of {} on {}: give a unicast address that is not "
                            "link-local",
                            text, name, host),
                "address");
  }
  for (const auto& [other, each] : inventory.hosts) {
    for (const auto& [vmk, taken] : each.vmks) {
      if (taken != *parsed || (other == host && vmk == name)) continue;
      return fail(ErrorKind::kConflict,
                  fmt::format("{} is taken: {} of host {} has it, give {} of host {} its own address",
                              parsed->to_string(), vmk, other, name, host),
                  "address");
    }
  }
  return *parsed;
}

Result<void> no_vmk(const std::string& host, const std::string& name,
                    const std::map<std::string, IpAddress>& vmks) {
  return fail(ErrorKind::kNotFound,
              fmt::format("host {} has no VMkernel adapter \"{}\": {}", host, name, it_has(vmks)));
}

// The ruleset's list, from the addresses and networks that the caller gives.
Result<std::vector<IpNetwork>> allowed_of(const std::string& ruleset, const std::string& host,
                                          const std::vector<std::string>& texts) {
  if (texts.size() > kAllowedMax) {
    return fail(
        ErrorKind::kInvalid,
        fmt::format("the ruleset {} of host {} cannot have {} allowed networks, but {}: use wider ones",
                    ruleset, host, texts.size(), kAllowedMax),
        "allowed");
  }
  std::vector<IpNetwork> networks;
  for (const std::string& text : texts) {
    auto parsed = IpNetwork::parse(text);
    if (!parsed) return Failure(std::move(parsed).error().about("allowed"));
    if (std::find(networks.begin(), networks.end(), *parsed) != networks.end()) {
      return fail(ErrorKind::kInvalid,
                  fmt::format("the allowed networks of the ruleset {} of host {} have {} twice", ruleset,
                              host, parsed->to_string()),
                  "allowed");
    }
    networks.push_back(*parsed);
  }
  return networks;
}

}  // namespace

Result<void> add_host(Inventory& inventory, const std::string& host) {
  if (auto named = check_name("host", host); !named) return named;
  if (host == "self") {
    return fail(ErrorKind::kInvalid,
                "no host may be called self: that means the host that answers; choose another name");
  }
  inventory.hosts.try_emplace(host, Host{host, {}, {}, {}});
  return {};
}

Result<void> remove_host(Inventory& inventory, const std::string& host) {
  if (const auto found = find_host(inventory, host); !found) return Failure(found.error());
  if (inventory.live_hosts.contains(host)) {
    return fail(ErrorKind::kConflict, fmt::format("host {} is alive: stop its pvrdmad first", host));
  }
  for (const auto& [name, dvs] : inventory.switches) {
    if (dvs.members.contains(host)) {
      return fail(ErrorKind::kConflict,
                  fmt::format("host {} is a member of the distributed switch {}: remove it there first "
                              "with pvrdmactl dvs remove-host",
                              host, name));
    }
  }
  for (const auto& [name, vm] : inventory.vms) {
    if (vm.host == host) {
      return fail(
          ErrorKind::kConflict,
          fmt::format("VM {} is placed on host {}: move it to another host or delete it first", name, host));
    }
  }
  if (const Vm* vm = arriving_at(inventory, host, {})) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {} is on its way to host {}: wait until that is over", vm->name, host));
  }
  inventory.hosts.erase(host);
  return {};
}

Result<void> add_vmk(Inventory& inventory, const std::string& host, const std::string& name,
                     const std::string& address) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  if (!is_vmk_name(name)) {
    return fail(ErrorKind::kInvalid,
                fmt::format("\"{}\" is not a name for a VMkernel adapter: use vmk0 to vmk999", name), "name");
  }
  auto& vmks = (*found)->vmks;
  if (const auto it = vmks.find(name); it != vmks.end()) {
    return fail(ErrorKind::kConflict,
                fmt::format("host {} has {} already, with address {}: choose another name or remove it "
                            "first",
                            host, name, it->second.to_string()),
                "name");
  }
  const auto parsed = address_for(inventory, host, name, address);
  if (!parsed) return Failure(parsed.error());
  if (vmks.size() >= kVmksMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("host {} has {} VMkernel adapters, which is the limit: remove one before "
                            "adding {}",
                            host, kVmksMax, name));
  }
  vmks.emplace(name, *parsed);
  return {};
}

Result<void> remove_vmk(Inventory& inventory, const std::string& host, const std::string& name) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  auto& vmks = (*found)->vmks;
  if (!vmks.contains(name)) return no_vmk(host, name, vmks);
  if ((*found)->pvrdma_vmknic == name) {
    return fail(ErrorKind::kConflict,
                fmt::format("{} of host {} is tagged for PVRDMA: set {} to another one or to \"\" first",
                            name, host, kPvrdmaVmknic));
  }
  vmks.erase(name);
  return {};
}

Result<void> set_vmk_address(Inventory& inventory, const std::string& host, const std::string& name,
                             const std::string& address) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  auto& vmks = (*found)->vmks;
  const auto it = vmks.find(name);
  if (it == vmks.end()) return no_vmk(host, name, vmks);
  const auto parsed = address_for(inventory, host, name, address);
  if (!parsed) return Failure(parsed.error());
  it->second = *parsed;
  return {};
}

Result<void> set_firewall(Inventory& inventory, const std::string& host, bool enabled) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  (*found)->firewall = enabled;
  return {};
}

Result<void> set_advanced(Inventory& inventory, const std::string& host, const std::string& path,
                          const std::string& value) {
  const auto found = find_host(inventory, host);
  if (!found) return Failure(found.error());
  if (path != kPvrdmaVmknic) {
    return fail(ErrorKind::kNotFound,
                fmt::format("host {} has no advanced setting \"{}\": it has {}", host, path, kPvrdmaVmknic),
                "path");
  }
  const auto& vmks = (*found)->vmks;
  if (!value.empty() && !vmks.contains(value)) {
    return fail(ErrorKind::kNotFound,
                fmt::format("{} of host {} cannot be \"{}\": the host has no such VMkernel adapter, {}; "
                            "add it first",
                            path, host, value, it_has(vmks)),
                "value");
  }
  (*found)->pvrdma_vmknic = value;
  return {};
}

Result<void> set_ruleset(Inventory& inventory, const std::string& host, const std::string& ruleset,
                         std::optional<bool> enabled, std::optional<bool> allow_all,
                         const std::optional<std::vector<std::string>>& allowed) {
  const auto found = find_ruleset(inventory, host, ruleset);
  if (!found) return Failure(found.error());
  if (!enabled && !allow_all && !allowed) {
    return fail(ErrorKind::kInvalid,
                fmt::format("nothing to change in the firewall ruleset {} of host {}: give enabled, "
                            "allow_all or allowed",
                            ruleset, host));
  }
  if (allowed) {
    auto networks = allowed_of(ruleset, host, *allowed);
    if (!networks) return Failure(std::move(networks).error());
    (*found)->allowed = *std::move(networks);
  }
  (*found)->enabled = enabled.value_or((*found)->enabled);
  (*found)->allow_all = allow_all.value_or((*found)->allow_all);
  return {};
}

Result<void> add_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                            const std::string& network) {
  const auto found = find_ruleset(inventory, host, ruleset);
  if (!found) return Failure(found.error());
  auto parsed = IpNetwork::parse(network);
  if (!parsed) return Failure(std::move(parsed).error().about("network"));
  auto& allowed = (*found)->allowed;
  if (std::find(allowed.begin(), allowed.end(), *parsed) != allowed.end()) {
    return fail(ErrorKind::kConflict,
                fmt::format("the ruleset {} of host {} has {} already: there is nothing to add", ruleset,
                            host, parsed->to_string()),
                "network");
  }
  if (allowed.size() >= kAllowedMax) {
    return fail(ErrorKind::kInvalid,
                fmt::format("the ruleset {} of host {} has {} allowed networks, which is the limit: "
                            "remove some or use wider ones instead of {}",
                            ruleset, host, kAllowedMax, parsed->to_string()));
  }
  allowed.push_back(*parsed);
  return {};
}

Result<void> remove_allowed_ip(Inventory& inventory, const std::string& host, const std::string& ruleset,
                               const std::string& network) {
  const auto found = find_ruleset(inventory, host, ruleset);
  if (!found) return Failure(found.error());
  const auto parsed = IpNetwork::parse(network);
  if (!parsed) return Failure(parsed.error());
  auto& allowed = (*found)->allowed;
  const auto it = std::find(allowed.begin(), allowed.end(), *parsed);
  if (it == allowed.end()) {
    std::vector<std::string> names;
    for (const IpNetwork& each : allowed) names.push_back(each.to_string());
    return fail(ErrorKind::kNotFound,
                fmt::format("the ruleset {} of host {} has no allowed network {}: it has {}", ruleset, host,
                            parsed->to_string(), list_of(names)));
  }
  allowed.erase(it);
  return {};
}

}  // namespace pvrdma::control::edits
