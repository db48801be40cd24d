// Hosts: VMkernel adapters, advanced settings, the firewall ruleset, RDMA devices' counters.
#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <utility>

#include "control/api/body.h"
#include "control/api/json.h"
#include "control/api/routes.h"
#include "control/discovery/discovery.h"
#include "control/model/edits.h"
#include "control/model/records.h"

namespace pvrdma::control {
namespace {

Reply no_host(const std::string& host) {
  return refuse(404, fmt::format("there is no host {}: see the list of hosts", host));
}

Reply show_host(const Plane& plane, const Inventory& inventory, const std::string& name) {
  const auto it = inventory.hosts.find(name);
  if (it == inventory.hosts.end()) return no_host(name);
  return ok(host_json(inventory, it->second, name == plane.host()));
}

Reply list_hosts(const Plane& plane) {
  const auto inventory = plane.inventory();
  std::vector<std::string> hosts;
  for (const auto& [name, host] : inventory->hosts) {
    hosts.push_back(host_json(*inventory, host, name == plane.host()));
  }
  return ok(list_json(hosts));
}

Reply show_advanced(const Inventory& inventory, const std::string& name) {
  const auto it = inventory.hosts.find(name);
  if (it == inventory.hosts.end()) return no_host(name);
  return ok(advanced_json(edits::kPvrdmaVmknic, it->second.pvrdma_vmknic));
}

// Null and a refusal: no such host or ruleset.
const Ruleset* find_ruleset(const Inventory& inventory, const std::string& host, const std::string& ruleset,
                            Reply& refusal) {
  const auto it = inventory.hosts.find(host);
  if (it == inventory.hosts.end()) {
    refusal = no_host(host);
    return nullptr;
  }
  if (ruleset != edits::kRuleset) {
    refusal = refuse(404, fmt::format("host {} has no ruleset {}: the one there is is {}", host, ruleset,
                                      edits::kRuleset));
    return nullptr;
  }
  return &it->second.pvrdma_ruleset;
}

Reply show_ruleset(const Inventory& inventory, const std::string& host, const std::string& name) {
  Reply refusal;
  const Ruleset* ruleset = find_ruleset(inventory, host, name, refusal);
  return ruleset == nullptr ? refusal : ok(ruleset_json(name, *ruleset));
}

Reply list_rulesets(const Inventory& inventory, const std::string& host) {
  Reply refusal;
  const Ruleset* ruleset = find_ruleset(inventory, host, edits::kRuleset, refusal);
  return ruleset == nullptr ? refusal : ok(list_json({ruleset_json(edits::kRuleset, *ruleset)}));
}

Reply list_rules(const Inventory& inventory, const std::string& host, const std::string& name) {
  Reply refusal;
  if (find_ruleset(inventory, host, name, refusal) == nullptr) return refusal;
  return ok(rules_json(name, kPvrdmaPort));
}

Reply add_vmk(Plane& plane, const std::string& host, const std::string& text) {
  Body body(text);
  const std::string name = body.text("name");
  const std::string address = body.text("address");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_and_show(
      plane, [&](Inventory& inventory) { return edits::add_vmk(inventory, host, name, address); },
      [&](const Inventory& inventory) { return show_host(plane, inventory, host); });
}

Reply set_advanced(Plane& plane, const std::string& host, const std::string& text) {
  Body body(text);
  const std::string path = body.text("path");
  const std::string value = body.text("value");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_and_show(
      plane, [&](Inventory& inventory) { return edits::set_advanced(inventory, host, path, value); },
      [&](const Inventory& inventory) { return show_advanced(inventory, host); });
}

Reply set_ruleset(Plane& plane, const std::string& host, const std::string& name, const std::string& text) {
  Body body(text);
  const auto enabled = body.optional_bool("enabled");
  const auto allow_all = body.optional_bool("allow_all");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_and_show(
      plane,
      [&](Inventory& inventory) { return edits::set_ruleset(inventory, host, name, enabled, allow_all); },
      [&](const Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply add_allowed(Plane& plane, const std::string& host, const std::string& name, const std::string& text) {
  Body body(text);
  const std::string network = body.text("network");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_and_show(
      plane, [&](Inventory& inventory) { return edits::add_allowed_ip(inventory, host, name, network); },
      [&](const Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply remove_allowed(Plane& plane, const std::string& host, const std::string& name,
                     const std::string& network) {
  return edit_and_show(
      plane, [&](Inventory& inventory) { return edits::remove_allowed_ip(inventory, host, name, network); },
      [&](const Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply rdma_stats(const Plane& plane, const std::string& sysfs, const std::string& host,
                 const std::string& device) {
  const auto inventory = plane.inventory();
  if (!inventory->hosts.contains(host)) return no_host(host);
  if (host != plane.host()) {
    return refuse(400, fmt::format("{} of host {}: its counters are read where it is: ask the pvrdmad of {}",
                                   device, host, host));
  }
  const auto live = inventory->live_hosts.find(host);
  if (live != inventory->live_hosts.end()) {
    for (const RdmaDevice& each : live->second.rdma_devices) {
      if (each.name != device) continue;
      const auto counters = device_counters(each.device, sysfs);
      if (!counters) return refuse(counters.error());
      return ok(rdma_stats_json(device, *counters));
    }
  }
  return refuse(404, fmt::format("host {} has no RDMA device {}: see the list of its devices", host, device));
}

}  // namespace

void add_host_routes(Router& router, const ApiParts& parts) {
  // `handler` gets the plane, the host that the path names, and the call.
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       std::string_view body, std::string_view answer, auto handler,
                       std::string_view required = {}) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, handler](const Call& call) {
                  return handler(*plane, call.names.empty() ? "" : host_name(*plane, call.names[0]), call);
                },
                required, !required.empty(), /*of_cluster=*/true});
  };
  using Name = const std::string&;

  add("GET", "/v1/hosts", "All hosts", "", "[Host]",
      [](Plane& plane, Name, const Call&) { return list_hosts(plane); });
  add("GET", "/v1/hosts/{host}", "One host; the name self is the host that answers", "", "Host",
      [](Plane& plane, Name host, const Call&) { return show_host(plane, *plane.inventory(), host); });
  add("DELETE", "/v1/hosts/{host}", "Removes a host that is no longer there", "", "{}",
      [](Plane& plane, Name host, const Call&) {
        return edit_only(plane, [&](Inventory& inventory) { return edits::remove_host(inventory, host); });
      });
  add("POST", "/v1/hosts/{host}/vmks", "Adds a VMkernel adapter", "NewVmk", "Host",
      [](Plane& plane, Name host, const Call& call) { return add_vmk(plane, host, call.body); });
  add("DELETE", "/v1/hosts/{host}/vmks/{vmk}", "Removes a VMkernel adapter", "", "{}",
      [](Plane& plane, Name host, const Call& call) {
        return edit_only(
            plane, [&](Inventory& inventory) { return edits::remove_vmk(inventory, host, call.names[1]); });
      });
  add("GET", "/v1/hosts/{host}/advanced", "Advanced settings", "", "[AdvancedSetting]",
      [](Plane& plane, Name host, const Call&) { return show_advanced(*plane.inventory(), host); });
  add("PUT", "/v1/hosts/{host}/advanced", "Sets an advanced setting; an empty value is its default",
      "AdvancedValue", "[AdvancedSetting]",
      [](Plane& plane, Name host, const Call& call) { return set_advanced(plane, host, call.body); });
  add("GET", "/v1/hosts/{host}/rulesets", "Firewall rulesets", "", "[Ruleset]",
      [](Plane& plane, Name host, const Call&) { return list_rulesets(*plane.inventory(), host); });
  add("PATCH", "/v1/hosts/{host}/rulesets/{ruleset}", "Enables or disables a ruleset", "RulesetChange",
      "Ruleset", [](Plane& plane, Name host, const Call& call) {
        return set_ruleset(plane, host, call.names[1], call.body);
      });
  add("GET", "/v1/hosts/{host}/rulesets/{ruleset}/rules", "What a ruleset opens", "", "[Rule]",
      [](Plane& plane, Name host, const Call& call) {
        return list_rules(*plane.inventory(), host, call.names[1]);
      });
  add("POST", "/v1/hosts/{host}/rulesets/{ruleset}/allowed", "Allows an address or network", "Network",
      "Ruleset", [](Plane& plane, Name host, const Call& call) {
        return add_allowed(plane, host, call.names[1], call.body);
      });
  add(
      "DELETE", "/v1/hosts/{host}/rulesets/{ruleset}/allowed", "Allows an address or network no longer", "",
      "Ruleset",
      [](Plane& plane, Name host, const Call& call) {
        return remove_allowed(plane, host, call.names[1], call.parameter("network"));
      },
      "network");
  add("GET", "/v1/hosts/{host}/rdma/{device}/stats", "Counters of an RDMA device of the host that answers",
      "", "RdmaStats", [sysfs = parts.sysfs](Plane& plane, Name host, const Call& call) {
        return rdma_stats(plane, sysfs, host, call.names[1]);
      });
}

}  // namespace pvrdma::control
