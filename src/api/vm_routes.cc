// VMs, their PVRDMA adapters, and how to start their VMMs.
#include <algorithm>
#include <fmt/core.h>
#include <utility>
#include <vector>

#include "api/inventory_views.h"
#include "api/requests.h"
#include "api/routes.h"
#include "api/vm_launch.h"
#include "base/no_such.h"
#include "control/model/edits.h"
#include "control/model/rules.h"
#include "control/model/views.h"

namespace pvrdma::api {
namespace {

Reply no_vm(const std::string& name) {
  return refuse(no_such("VM", name, "vm"));
}

struct Sides {
  Configuration configuration;
  snapshots::SnapshotSource& source;
  const FindOwner& find_owner;
};

bool is_here(const Sides& sides, const control::Vm& vm) {
  return vm.adapter && vm.host == sides.configuration.host();
}

// The adapters that this host cannot serve, and why. If the shard does not answer, the list is empty: the
// rest of the answer comes from the inventory. Asks the shard only if `wanted`.
std::vector<adapters::AdapterTrouble> not_served(snapshots::SnapshotSource& source, bool wanted) {
  if (!wanted) return {};
  auto snapshot = source.take_snapshot(snapshots::SnapshotDetail::kAdapters);
  return snapshot ? std::move(snapshot->not_served) : std::vector<adapters::AdapterTrouble>{};
}

Reply show_vm(const Sides& sides, const control::Inventory& inventory, const std::string& name) {
  const auto it = inventory.vms.find(name);
  if (it == inventory.vms.end()) return no_vm(name);
  // A batch asks for nothing that may be slow.
  const bool asks_shard = is_here(sides, it->second) && !sides.configuration.is_draft();
  const auto troubles = not_served(sides.source, asks_shard);
  return ok(text_of(vm_view(inventory, it->second, sides.configuration.host(), troubles)));
}

Reply list_vms(const Sides& sides) {
  const auto inventory = sides.configuration.inventory();
  const bool any_here = std::ranges::any_of(
      inventory->vms, [&sides](const auto& entry) { return is_here(sides, entry.second); });
  return ok(text_of(vm_views(*inventory, sides.configuration.host(), not_served(sides.source, any_here))));
}

Reply edit_vm(const Sides& sides, const std::string& name, const control::Plane::Edit& edit) {
  return edit_and_show(sides.configuration, edit,
                       [&](const control::Inventory& inventory) { return show_vm(sides, inventory, name); });
}

// Refuses an owner that this host does not know, for a VM on `host`. Another host may know other users: a VM
// there is accepted, and its host shows in `not_served` what it does not know. Call it before the edit,
// because a directory service may be slow, and other edits of this host would wait for it.
Result<void> check_owner(const Sides& sides, const std::string& host, const std::string& vm,
                         const std::string& user, const std::string& group) {
  if (host != sides.configuration.host() || sides.configuration.is_rehearsed()) return {};
  auto owner = sides.configuration.look_for_owner(user, group, sides.find_owner);
  if (owner) return {};
  return Failure(
      std::move(owner).error().in(fmt::format("the adapter of VM {} cannot be given to its owner", vm)));
}

// Like check_owner(), for the owner that a VM has after a change. If the VM does not exist or has no adapter,
// the edit refuses the change.
Result<void> check_changed_owner(const Sides& sides, const std::string& name,
                                 const control::edits::VmChange& change) {
  const auto inventory = sides.configuration.inventory();
  const auto vm = inventory->vms.find(name);
  if (vm == inventory->vms.end() || !vm->second.adapter) return {};
  const control::VmAdapter& adapter = *vm->second.adapter;
  return check_owner(sides, change.host.value_or(vm->second.host), name, change.owner.value_or(adapter.owner),
                     change.group.value_or(adapter.group));
}

// The refusal of an adapter that is a member of the request's body.
Failure of_adapter(Error error) {
  if (!error.field.empty()) error.field.insert(0, "adapter.");
  return Failure(std::move(error));
}

Reply create_vm(const Sides& sides, const Call& call) {
  auto body = body_of<NewVmBody>(call);
  if (!body) return refuse(body.error());
  body->host = host_name(sides.configuration.host(), body->host);
  if (body->adapter) {
    const auto known = check_owner(sides, body->host, body->name, body->adapter->owner, body->adapter->group);
    if (!known) return refuse(of_adapter(known.error()).value());
  }
  return edit_vm(sides, body->name, [&](control::Inventory& inventory) -> Result<void> {
    auto created = control::edits::create_vm(inventory, *body);
    if (!created || !body->adapter) return created;
    auto added = control::edits::add_adapter(inventory, body->name, *body->adapter);
    return added ? added : of_adapter(std::move(added).error());
  });
}

Reply change_vm(const Sides& sides, const Call& call) {
  auto body = body_of<control::edits::VmChange>(call);
  if (!body) return refuse(body.error());
  if (body->host) body->host = host_name(sides.configuration.host(), *body->host);
  if (body->host || body->owner || body->group) {
    if (const auto known = check_changed_owner(sides, call.names[0], *body); !known)
      return refuse(known.error());
  }
  return edit_vm(sides, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::change_vm(inventory, call.names[0], *body);
  });
}

Reply add_adapter(const Sides& sides, const Call& call) {
  const auto body = body_of<control::edits::NewAdapter>(call);
  if (!body) return refuse(body.error());
  const auto inventory = sides.configuration.inventory();
  if (const auto vm = inventory->vms.find(call.names[0]); vm != inventory->vms.end()) {
    const auto known = check_owner(sides, vm->second.host, call.names[0], body->owner, body->group);
    if (!known) return refuse(known.error());
  }
  return edit_vm(sides, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::add_adapter(inventory, call.names[0], *body);
  });
}

Reply upgrade_vm(const Sides& sides, const Call& call) {
  const auto body = body_of<Upgrade>(call);
  if (!body) return refuse(body.error());
  return edit_vm(sides, call.names[0], [&](control::Inventory& inventory) {
    return control::edits::upgrade_vm(inventory, call.names[0], body->hardware_version);
  });
}

// For a VM that is moving to this host, answers as if it were here already.
Reply launch(const Configuration& configuration, const Call& call, std::string (*render)(const VmLaunch&)) {
  const auto inventory = configuration.inventory();
  const auto vm = inventory->vms.find(call.names[0]);
  const bool arrives =
      vm != inventory->vms.end() && vm->second.motion && vm->second.motion->to == configuration.host();
  const auto parameters = vm_launch(
      arrives ? control::with_arrivals(*inventory, configuration.host()) : *inventory, call.names[0]);
  return parameters ? ok(render(*parameters)) : refuse(parameters.error());
}

// Only the VM's host knows which monitor its QEMU has.
Reply launch_qemu(const Sides& sides, const Call& call) {
  const std::string incoming = call.parameter("incoming");
  if (incoming.empty() || incoming == "false") return launch(sides.configuration, call, qemu_args_json);
  if (incoming == "file") return launch(sides.configuration, call, restoring_qemu_args_json);
  if (incoming != "true")
    return refuse(ErrorKind::kInvalid, fmt::format("incoming must be true, false or file, not {}", incoming));
  const auto inventory = sides.configuration.inventory();
  const auto it = inventory->vms.find(call.names[0]);
  if (it == inventory->vms.end()) return no_vm(call.names[0]);
  if (!is_here(sides, it->second)) {
    return refuse(ErrorKind::kConflict,
                  fmt::format("VM {} is on host {}, whose pvrdmad knows this: pvrdmactl --host {}", it->first,
                              it->second.host, it->second.host));
  }
  return launch(sides.configuration, call, incoming_qemu_args_json);
}

}  // namespace

void add_vm_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       SchemaOf body, SchemaOf answer, auto handler,
                       std::vector<std::string_view> query = {}) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, &source = parts.source, find_owner = parts.find_owner,
                 handler](const Call& call) {
                  return handler(Sides{Configuration(*plane, call), source, find_owner}, call);
                },
                std::move(query), false, /*of_cluster=*/true});
  };
  add("GET", "/v1/vms", "All VMs", nullptr, schema_for<std::vector<control::VmView>>,
      [](const Sides& sides, const Call&) { return list_vms(sides); });
  add("POST", "/v1/vms", "Makes a VM, with its adapter if one is given", schema_for<NewVmBody>,
      schema_for<control::VmView>, create_vm);
  add("GET", "/v1/vms/{vm}", "One VM", nullptr, schema_for<control::VmView>,
      [](const Sides& sides, const Call& call) {
        return show_vm(sides, *sides.configuration.inventory(), call.names[0]);
      });
  add("DELETE", "/v1/vms/{vm}", "Removes a VM that is off", nullptr, schema_for<Nothing>,
      [](const Sides& sides, const Call& call) {
        return edit_only(sides.configuration, [&](control::Inventory& inventory) {
          return control::edits::delete_vm(inventory, call.names[0]);
        });
      });
  add("PATCH", "/v1/vms/{vm}", "Changes the given members of a VM that is off",
      schema_for<control::edits::VmChange>, schema_for<control::VmView>, change_vm);
  add("PUT", "/v1/vms/{vm}/adapter", "Adds the VM's PVRDMA adapter", schema_for<control::edits::NewAdapter>,
      schema_for<control::VmView>, add_adapter);
  add("DELETE", "/v1/vms/{vm}/adapter", "Removes the VM's PVRDMA adapter", nullptr,
      schema_for<control::VmView>, [](const Sides& sides, const Call& call) {
        return edit_vm(sides, call.names[0], [&](control::Inventory& inventory) {
          return control::edits::remove_adapter(inventory, call.names[0]);
        });
      });
  add("POST", "/v1/vms/{vm}/upgrade", "Upgrades the hardware version; the RoCE protocol stays",
      schema_for<Upgrade>, schema_for<control::VmView>, upgrade_vm);
  add("GET", "/v1/vms/{vm}/qemu-args",
      "Arguments for QEMU 10.1 or newer; with incoming=true for one that takes the VM over from its QEMU, "
      "with incoming=file for one that restores it from a checkpoint",
      nullptr, schema_for<QemuArgs>, launch_qemu, {"incoming"});
  add("GET", "/v1/vms/{vm}/libvirt-xml", "Fragment of a libvirt domain", nullptr, schema_for<LibvirtXml>,
      [](const Sides& sides, const Call& call) {
        return launch(sides.configuration, call, libvirt_xml_json);
      });
}

}  // namespace pvrdma::api
