// Distributed switches: uplinks, member hosts, port groups.

#include "api/inventory_views.h"
#include "api/requests.h"
#include "api/routes.h"
#include "base/no_such.h"
#include "control/model/edits.h"
#include "control/model/views.h"

namespace pvrdma::api {
namespace {

Reply show_dvs(const control::Inventory& inventory, const std::string& name) {
  const auto it = inventory.switches.find(name);
  if (it == inventory.switches.end()) {
    return refuse(no_such("distributed switch", name, "dvs"));
  }
  return ok(text_of(view_of(it->second)));
}

Reply edit_dvs(const Configuration& configuration, const std::string& name,
               const control::Plane::Edit& edit) {
  return edit_and_show(configuration, edit,
                       [&](const control::Inventory& inventory) { return show_dvs(inventory, name); });
}

Reply create_dvs(const Configuration& configuration, const Call& call) {
  const auto body = body_of<control::edits::NewDvs>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(configuration, body->name, [&](control::Inventory& inventory) {
    return control::edits::create_dvs(inventory, *body);
  });
}

Reply add_host(const Configuration& configuration, const Call& call) {
  if (const auto body = body_of<Nothing>(call); !body) return refuse(body.error());
  const std::string host = host_name(configuration.host(), call.names[1]);
  return edit_dvs(configuration, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::add_dvs_host(inventory, call.names[0], host);
  });
}

Reply remove_host(const Configuration& configuration, const Call& call) {
  const std::string host = host_name(configuration.host(), call.names[1]);
  return edit_dvs(configuration, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::remove_dvs_host(inventory, call.names[0], host);
  });
}

Reply set_uplink(const Configuration& configuration, const Call& call) {
  const auto body = body_of<Uplink>(call);
  if (!body) return refuse(body.error());
  const std::string host = host_name(configuration.host(), call.names[1]);
  return edit_dvs(configuration, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::set_uplink(inventory, call.names[0], host, call.names[2], body->vmnic);
  });
}

Reply add_portgroup(const Configuration& configuration, const Call& call) {
  const auto body = body_of<NewPortGroup>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(configuration, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::add_portgroup(inventory, call.names[0], call.names[1], *body);
  });
}

Reply change_portgroup(const Configuration& configuration, const Call& call) {
  const auto body = body_of<control::edits::PortGroupChange>(call);
  if (!body) return refuse(body.error());
  return edit_dvs(configuration, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::change_portgroup(inventory, call.names[0], call.names[1], *body);
  });
}

Reply remove_portgroup(const Configuration& configuration, const Call& call) {
  return edit_only(configuration, [&](control::Inventory& inventory) {
    return control::edits::remove_portgroup(inventory, call.names[0], call.names[1]);
  });
}

Reply remove_dvs(const Configuration& configuration, const Call& call) {
  return edit_only(configuration, [&](control::Inventory& inventory) {
    return control::edits::delete_dvs(inventory, call.names[0]);
  });
}

}  // namespace

void add_switch_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       SchemaOf body, SchemaOf answer, auto handler) {
    router.add({method,
                path,
                summary,
                body,
                answer,
                [plane = parts.plane, handler](const Call& call) {
                  return handler(Configuration(*plane, call), call);
                },
                {},
                false,
                /*of_cluster=*/true});
  };
  add("GET", "/v1/dvs", "All distributed switches", nullptr, schema_for<std::vector<control::DvsView>>,
      [](const Configuration& configuration, const Call&) {
        return ok(text_of(switch_views(*configuration.inventory())));
      });
  add("POST", "/v1/dvs", "Makes a distributed switch", schema_for<control::edits::NewDvs>,
      schema_for<control::DvsView>, create_dvs);
  add("GET", "/v1/dvs/{dvs}", "One distributed switch", nullptr, schema_for<control::DvsView>,
      [](const Configuration& configuration, const Call& call) {
        return show_dvs(*configuration.inventory(), call.names[0]);
      });
  add("DELETE", "/v1/dvs/{dvs}", "Removes a switch that nothing uses", nullptr, schema_for<Nothing>,
      remove_dvs);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}", "Makes a host a member", schema_for<Nothing>,
      schema_for<control::DvsView>, add_host);
  add("DELETE", "/v1/dvs/{dvs}/hosts/{host}", "Ends a host's membership", nullptr,
      schema_for<control::DvsView>, remove_host);
  add("PUT", "/v1/dvs/{dvs}/hosts/{host}/uplinks/{slot}", "Gives a slot a vmnic; an empty one frees it",
      schema_for<Uplink>, schema_for<control::DvsView>, set_uplink);
  add("PUT", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Adds a port group", schema_for<NewPortGroup>,
      schema_for<control::DvsView>, add_portgroup);
  add("PATCH", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Changes a port group",
      schema_for<control::edits::PortGroupChange>, schema_for<control::DvsView>, change_portgroup);
  add("DELETE", "/v1/dvs/{dvs}/portgroups/{portgroup}", "Removes a port group that nothing uses", nullptr,
      schema_for<Nothing>, remove_portgroup);
}

}  // namespace pvrdma::api
