// Hosts: VMkernel adapters, advanced settings, the firewall ruleset, counters of RDMA devices.
#include <fmt/core.h>

#include "api/answers.h"
#include "api/host_reads.h"
#include "api/inventory_views.h"
#include "api/requests.h"
#include "api/routes.h"
#include "base/no_such.h"
#include "control/discovery/discovery.h"
#include "control/model/edits.h"

namespace pvrdma::api {
namespace {

Error no_host(const std::string& host) {
  return no_such("host", host, "host");
}

Reply show_host(const Configuration& configuration, const control::Inventory& inventory,
                const std::string& name) {
  const auto it = inventory.hosts.find(name);
  if (it == inventory.hosts.end()) return refuse(no_host(name));
  return ok(text_of(view_of(inventory, it->second, name == configuration.host())));
}

Reply list_hosts(const Configuration& configuration) {
  return ok(text_of(host_views(*configuration.inventory(), configuration.host())));
}

Reply show_advanced(const control::Inventory& inventory, const std::string& name) {
  const auto it = inventory.hosts.find(name);
  if (it == inventory.hosts.end()) return refuse(no_host(name));
  return ok(text_of(std::vector<AdvancedSetting>{{control::edits::kPvrdmaVmknic, it->second.pvrdma_vmknic}}));
}

Result<const control::Ruleset*> find_ruleset(const control::Inventory& inventory, const std::string& host,
                                             const std::string& ruleset) {
  const auto it = inventory.hosts.find(host);
  if (it == inventory.hosts.end()) return Failure(no_host(host));
  if (ruleset == control::edits::kRuleset) return &it->second.pvrdma_ruleset;
  return fail(ErrorKind::kNotFound, fmt::format("host {} has no ruleset {}: its only one is {}", host,
                                                ruleset, control::edits::kRuleset));
}

Reply show_ruleset(const control::Inventory& inventory, const std::string& host, const std::string& name) {
  const auto ruleset = find_ruleset(inventory, host, name);
  return ruleset ? ok(text_of(view_of(**ruleset))) : refuse(ruleset.error());
}

Reply list_rulesets(const control::Inventory& inventory, const std::string& host) {
  const auto ruleset = find_ruleset(inventory, host, control::edits::kRuleset);
  return ruleset ? ok(text_of(std::vector<control::RulesetView>{view_of(**ruleset)}))
                 : refuse(ruleset.error());
}

Reply list_rules(const control::Inventory& inventory, const std::string& host, const std::string& name) {
  if (const auto ruleset = find_ruleset(inventory, host, name); !ruleset) return refuse(ruleset.error());
  return ok(text_of(std::vector<FirewallRule>{{name, "Inbound", kPvrdmaPort, kPvrdmaPort},
                                              {name, "Outbound", kPvrdmaPort, kPvrdmaPort}}));
}

Reply add_vmk(const Configuration& configuration, const std::string& host, const Call& call) {
  const auto body = body_of<NewVmk>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::add_vmk(inventory, host, body->name, body->address);
      },
      [&](const control::Inventory& inventory) { return show_host(configuration, inventory, host); });
}

Reply set_vmk(const Configuration& configuration, const std::string& host, const std::string& vmk,
              const Call& call) {
  const auto body = body_of<VmkAddress>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::set_vmk_address(inventory, host, vmk, body->address);
      },
      [&](const control::Inventory& inventory) { return show_host(configuration, inventory, host); });
}

Reply set_firewall(const Configuration& configuration, const std::string& host, const Call& call) {
  const auto body = body_of<Firewall>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::set_firewall(inventory, host, body->enabled);
      },
      [&](const control::Inventory& inventory) { return show_host(configuration, inventory, host); });
}

Reply set_advanced(const Configuration& configuration, const std::string& host, const Call& call) {
  const auto body = body_of<AdvancedValue>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::set_advanced(inventory, host, body->path, body->value);
      },
      [&](const control::Inventory& inventory) { return show_advanced(inventory, host); });
}

Reply set_ruleset(const Configuration& configuration, const std::string& host, const std::string& name,
                  const Call& call) {
  const auto body = body_of<RulesetChange>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::set_ruleset(inventory, host, name, body->enabled, body->allow_all,
                                           body->allowed);
      },
      [&](const control::Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply add_allowed(const Configuration& configuration, const std::string& host, const std::string& name,
                  const Call& call) {
  const auto body = body_of<Network>(call);
  if (!body) return refuse(body.error());
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::add_allowed_ip(inventory, host, name, body->network);
      },
      [&](const control::Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply remove_allowed(const Configuration& configuration, const std::string& host, const std::string& name,
                     const std::string& network) {
  return edit_and_show(
      configuration,
      [&](control::Inventory& inventory) {
        return control::edits::remove_allowed_ip(inventory, host, name, network);
      },
      [&](const control::Inventory& inventory) { return show_ruleset(inventory, host, name); });
}

Reply rdma_stats(const Configuration& configuration, const ApiParts& parts, const std::string& host,
                 const std::string& device) {
  const auto inventory = configuration.inventory();
  if (!inventory->hosts.contains(host)) return refuse(no_host(host));
  if (host != configuration.host())
    return parts.reads->read(host, {fmt::format("/v1/hosts/self/rdma/{}/stats", device), {}});
  const auto live = inventory->live_hosts.find(host);
  if (live != inventory->live_hosts.end()) {
    for (const control::RdmaDevice& each : live->second.rdma_devices) {
      if (each.name != device) continue;
      const auto counters = control::device_counters(each.device, parts.sysfs);
      if (!counters) return refuse(counters.error());
      return ok(text_of(RdmaStats{device, {counters->begin(), counters->end()}}));
    }
  }
  return refuse(ErrorKind::kNotFound,
                fmt::format("host {} has no RDMA device \"{}\": pvrdmactl rdma device list -H {} shows them",
                            host, device, host));
}

}  // namespace

void add_host_routes(Router& router, const ApiParts& parts) {
  // `handler` gets the configuration, the host from the path, and the call.
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       SchemaOf body, SchemaOf answer, auto handler,
                       std::vector<std::string_view> required = {}) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, handler](const Call& call) {
                  const Configuration configuration(*plane, call);
                  return handler(configuration,
                                 call.names.empty() ? "" : host_name(plane->host(), call.names[0]), call);
                },
                required, !required.empty(), /*of_cluster=*/true});
  };
  using Name = const std::string&;

  add("GET", "/v1/hosts", "All hosts", nullptr, schema_for<std::vector<control::HostView>>,
      [](const Configuration& configuration, Name, const Call&) { return list_hosts(configuration); });
  add("GET", "/v1/hosts/{host}", "One host; the name self is the host that answers", nullptr,
      schema_for<control::HostView>, [](const Configuration& configuration, Name host, const Call&) {
        return show_host(configuration, *configuration.inventory(), host);
      });
  add("DELETE", "/v1/hosts/{host}", "Removes a host that is no longer there", nullptr, schema_for<Nothing>,
      [](const Configuration& configuration, Name host, const Call&) {
        return edit_only(configuration, [&](control::Inventory& inventory) {
          return control::edits::remove_host(inventory, host);
        });
      });
  add("POST", "/v1/hosts/{host}/vmks", "Adds a VMkernel adapter", schema_for<NewVmk>,
      schema_for<control::HostView>, [](const Configuration& configuration, Name host, const Call& call) {
        return add_vmk(configuration, host, call);
      });
  add("DELETE", "/v1/hosts/{host}/vmks/{vmk}", "Removes a VMkernel adapter", nullptr, schema_for<Nothing>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return edit_only(configuration, [&](control::Inventory& inventory) {
          return control::edits::remove_vmk(inventory, host, call.names[1]);
        });
      });
  add("PATCH", "/v1/hosts/{host}/vmks/{vmk}", "Changes the address of a VMkernel adapter",
      schema_for<VmkAddress>, schema_for<control::HostView>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return set_vmk(configuration, host, call.names[1], call);
      });
  add("PATCH", "/v1/hosts/{host}/firewall",
      "Enables or disables the firewall; without it the rulesets have no effect", schema_for<Firewall>,
      schema_for<control::HostView>, [](const Configuration& configuration, Name host, const Call& call) {
        return set_firewall(configuration, host, call);
      });
  add("GET", "/v1/hosts/{host}/advanced", "Advanced settings", nullptr,
      schema_for<std::vector<AdvancedSetting>>,
      [](const Configuration& configuration, Name host, const Call&) {
        return show_advanced(*configuration.inventory(), host);
      });
  add("PUT", "/v1/hosts/{host}/advanced", "Sets an advanced setting; an empty value restores its default",
      schema_for<AdvancedValue>, schema_for<std::vector<AdvancedSetting>>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return set_advanced(configuration, host, call);
      });
  add("GET", "/v1/hosts/{host}/rulesets", "Firewall rulesets", nullptr,
      schema_for<std::vector<control::RulesetView>>,
      [](const Configuration& configuration, Name host, const Call&) {
        return list_rulesets(*configuration.inventory(), host);
      });
  add("PATCH", "/v1/hosts/{host}/rulesets/{ruleset}",
      "Changes the given members of a ruleset; allowed is the whole list", schema_for<RulesetChange>,
      schema_for<control::RulesetView>, [](const Configuration& configuration, Name host, const Call& call) {
        return set_ruleset(configuration, host, call.names[1], call);
      });
  add("GET", "/v1/hosts/{host}/rulesets/{ruleset}/rules", "The ports that a ruleset opens", nullptr,
      schema_for<std::vector<FirewallRule>>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return list_rules(*configuration.inventory(), host, call.names[1]);
      });
  add("POST", "/v1/hosts/{host}/rulesets/{ruleset}/allowed", "Allows an address or network",
      schema_for<Network>, schema_for<control::RulesetView>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return add_allowed(configuration, host, call.names[1], call);
      });
  add("DELETE", "/v1/hosts/{host}/rulesets/{ruleset}/allowed", "Removes an allowed address or network",
      nullptr, schema_for<control::RulesetView>,
      [](const Configuration& configuration, Name host, const Call& call) {
        return remove_allowed(configuration, host, call.names[1], call.parameter("network"));
      },
      {"network"});
  add("GET", "/v1/hosts/{host}/rdma/{device}/stats", "Counters of an RDMA device", nullptr,
      schema_for<RdmaStats>, [parts](const Configuration& configuration, Name host, const Call& call) {
        return rdma_stats(configuration, parts, host, call.names[1]);
      });
}

}  // namespace pvrdma::api
