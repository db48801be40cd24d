// Distributed switches: uplinks, member hosts, port groups.
#include <fmt/core.h>

#include "control/api/requests.h"
#include "control/api/routes.h"
#include "control/model/edits.h"
#include "control/model/views.h"

namespace pvrdma::control {
namespace {

Reply show_dvs(const Inventory& inventory, const std::string& name) {
  const auto it = inventory.switches.find(name);
  if (it == inventory.switches.end()) {
    return refuse(404, fmt::format("there is no distributed switch {}: see the list of switches", name));
  }
  return ok(text_of(view_of(it->second)));
}

Reply list_switches(const Inventory& inventory) {
  std::vector<DvsView> switches;
  for (const auto& [name, dvs] : inventory.switches) switches.push_back(view_of(dvs));
  return ok(text_of(switches));
}

Reply edit_dvs(Plane& plane, const std::string& name, const Plane::Edit& edit) {
  return edit_and_show(plane, edit, [&](const Inventory& inventory) { return show_dvs(inventory, name); });
}

Reply create(Plane& plane, const Call& call) {
  const auto body = body_of<edits::NewDvs>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(plane, body->name,
                  [&](Inventory& inventory) { return edits::create_dvs(inventory, *body); });
}

Reply add_host(Plane& plane, const Call& call) {
  if (const auto body = body_of<Nothing>(call); !body) return refuse(body.error());
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
  const auto body = body_of<Uplink>(call);
  if (!body) return refuse(body.error());
  const std::string host = host_name(plane, call.names[1]);
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::set_uplink(inventory, call.names[0], host, call.names[2], body->vmnic);
  });
}

Reply add_portgroup(Plane& plane, const Call& call) {
  const auto body = body_of<NewPortGroup>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::add_portgroup(inventory, call.names[0], call.names[1], *body);
  });
}

Reply change_portgroup(Plane& plane, const Call& call) {
  const auto body = body_of<edits::PortGroupChange>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(plane, call.names[0], [&](Inventory& inventory) {
    return edits::change_portgroup(inventory, call.names[0], call.names[1], *body);
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
                       SchemaOf body, SchemaOf answer, auto handler) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, handler](const Call& call) { return handler(*plane, call); }, "", false,
                /*of_cluster=*/true});
  };
  add("GET", "/v1/dvs", "All distributed switches", nullptr, schema_for<std::vector<DvsView>>,
      [](Plane& plane, const Call&) { return list_switches(*plane.inventory()); });
  add("POST", "/v1/dvs", "Makes a distributed switch", schema_for<edits::NewDvs>, schema_for<DvsView>,
      create);
  add("GET", "/v1/dvs/{dvs}", "One distributed switch", nullptr, schema_for<DvsView>,
      [](Plane& plane, const Call& call) { return show_dvs(*plane.inventory(), call.names[0]); });
  add("DELETE", "/v1/dvs/{dvs}", "Removes a switch that nothing uses", nullptr, schema_for<Nothing>, remove);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}", "Makes a host a member", schema_for<Nothing>, schema_for<DvsView>,
      add_host);
  add("DELETE", "/v1/dvs/{dvs}/hosts/{host}", "Ends a host's membership", nullptr, schema_for<DvsView>,
      remove_host);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}/uplinks/{slot}", "Gives a slot a vmnic; an empty one frees it",
      schema_for<Uplink>, schema_for<DvsView>, set_uplink);
  add("PUT", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Adds a port group", schema_for<NewPortGroup>,
      schema_for<DvsView>, add_portgroup);
  add("PATCH", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Changes a port group",
      schema_for<edits::PortGroupChange>, schema_for<DvsView>, change_portgroup);
  add("DELETE", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Removes a port group that nothing uses", nullptr,
      schema_for<Nothing>, remove_portgroup);
}

}  // namespace pvrdma::control
