// Distributed switches: uplinks, member hosts, port groups.
#include <fmt/core.h>

#include "control/api/body.h"
#include "control/api/json.h"
#include "control/api/routes.h"
#include "control/model/edits.h"
#include "control/model/records.h"

namespace pvrdma::control {
namespace {

Reply show_dvs(const Inventory& inventory, const std::string& name) {
  const auto it = inventory.switches.find(name);
  if (it == inventory.switches.end()) {
    return refuse(404, fmt::format("there is no distributed switch {}: see the list of switches", name));
  }
  return ok(dvs_json(it->second));
}

Reply list_switches(const Inventory& inventory) {
  std::vector<std::string> switches;
  for (const auto& [name, dvs] : inventory.switches) switches.push_back(dvs_json(dvs));
  return ok(list_json(switches));
}

Reply edit_dvs(Plane& plane, const std::string& name, const Plane::Edit& edit) {
  return edit_and_show(plane, edit, [&](const Inventory& inventory) { return show_dvs(inventory, name); });
}

Reply create(Plane& plane, const Call& call) {
  Body body(call.body);
  edits::NewDvs spec;
  spec.name = body.text("name");
  spec.version = body.optional_text("version").value_or(spec.version);
  spec.uplinks = body.optional_number("uplinks").value_or(spec.uplinks);
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_dvs(plane, spec.name, [&](Inventory& inventory) { return edits::create_dvs(inventory, spec); });
}

Reply add_host(Plane& plane, const Call& call) {
  Body body(call.body);
  if (const auto read = body.finish(); !read) return refuse(read.error());
  const std::string host = host_name(plane, call.names[1]);
  return edit_dvs(plane, call.names[0],
                  [&](Inventory& inventory) { return edits::add_dvs_host(inventory, call.names[0], host); });
}

Reply remove_host(Plane& plane, const Call& call) {
  const std::string host = host_name(plane, call.names[1]);
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::remove_dvs_host(inventory, call.names[0], host);
  });
}

Reply set_uplink(Plane& plane, const Call& call) {
  Body body(call.body);
  const std::string vmnic = body.text("vmnic");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  const std::string host = host_name(plane, call.names[1]);
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::set_uplink(inventory, call.names[0], host, call.names[2], vmnic);
  });
}

Reply add_portgroup(Plane& plane, const Call& call) {
  Body body(call.body);
  const auto vlan = static_cast<std::uint16_t>(body.optional_number("vlan", UINT16_MAX).value_or(0));
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::add_portgroup(inventory, call.names[0], call.names[1], vlan);
  });
}

Reply remove_portgroup(Plane& plane, const Call& call) {
  return edit_only(plane, [&](Inventory& inventory) {
    return edits::remove_portgroup(inventory, call.names[0], call.names[1]);
  });
}

Reply remove(Plane& plane, const Call& call) {
  return edit_only(plane, [&](Inventory& inventory) { return edits::delete_dvs(inventory, call.names[0]); });
}

}  // namespace

void add_switch_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       std::string_view body, std::string_view answer, auto handler) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, handler](const Call& call) { return handler(*plane, call); }, "", false,
                /*of_cluster=*/true});
  };
  add("GET", "/v1/dvs", "All distributed switches", "", "[Dvs]",
      [](Plane& plane, const Call&) { return list_switches(*plane.inventory()); });
  add("POST", "/v1/dvs", "Makes a distributed switch", "NewDvs", "Dvs", create);
  add("GET", "/v1/dvs/{dvs}", "One distributed switch", "", "Dvs",
      [](Plane& plane, const Call& call) { return show_dvs(*plane.inventory(), call.names[0]); });
  add("DELETE", "/v1/dvs/{dvs}", "Removes a switch that nothing uses", "", "{}", remove);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}", "Makes a host a member", "Nothing", "Dvs", add_host);
  add("DELETE", "/v1/dvs/{dvs}/hosts/{host}", "Ends a host's membership", "", "Dvs", remove_host);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}/uplinks/{slot}", "Gives a slot a vmnic; an empty one frees it",
      "Uplink", "Dvs", set_uplink);
  add("PUT", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Adds a port group", "NewPortGroup", "Dvs",
      add_portgroup);
  add("DELETE", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Removes a port group that nothing uses", "", "{}",
      remove_portgroup);
}

}  // namespace pvrdma::control
