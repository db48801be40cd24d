// VMs and their PVRDMA adapters, and how their VMM is to be started.
#include <algorithm>
#include <array>
#include <cerrno>
#include <fmt/core.h>
#include <utility>
#include <vector>

#include "control/api/body.h"
#include "control/api/json.h"
#include "control/api/routes.h"
#include "control/api/vm_launch.h"
#include "control/model/edits.h"
#include "control/model/records.h"

namespace pvrdma::control {
namespace {

std::optional<RoceVersion> read_protocol(Body& body) {
  constexpr std::array kProtocols{RoceVersion::kV1, RoceVersion::kV2};
  const auto index = body.optional_choice("protocol", {"v1", "v2"});
  return index ? std::optional(kProtocols[*index]) : std::nullopt;
}

edits::NewAdapter read_adapter(Body& body) {
  constexpr std::array kProfiles{Profile::kOpen, Profile::kEsxi};
  edits::NewAdapter spec;
  spec.mac = body.optional_text("mac");
  spec.dvs = body.optional_text("dvs").value_or("");
  spec.portgroup = body.text("portgroup");
  spec.protocol = read_protocol(body);
  spec.profile = kProfiles[body.optional_choice("profile", {"open", "esxi"}).value_or(0)];
  return spec;
}

Reply no_vm(const std::string& name) {
  return refuse(404, fmt::format("there is no VM {}: see the list of VMs", name));
}

struct Sides {
  Plane& plane;
  SnapshotSource& source;
};

bool is_here(const Sides& sides, const Vm& vm) {
  return vm.adapter && vm.host == sides.plane.host();
}

// What this host cannot serve, and why. What the shard does not tell is left out: the rest of the answer is
// the inventory's. Asks the shard only if `wanted`.
std::vector<AdapterTrouble> not_served(SnapshotSource& source, bool wanted) {
  if (!wanted) return {};
  auto snapshot = source.take_snapshot(SnapshotDetail::kAdapters);
  return snapshot ? std::move(snapshot->not_served) : std::vector<AdapterTrouble>{};
}

std::string vm_text(const Sides& sides, const Inventory& inventory, const Vm& vm,
                    const std::vector<AdapterTrouble>& troubles) {
  const auto it = std::ranges::find(troubles, vm.name, &AdapterTrouble::vm);
  return vm_json(inventory, vm, is_here(sides, vm) && it != troubles.end() ? it->why : "");
}

Reply show_vm(const Sides& sides, const Inventory& inventory, const std::string& name) {
  const auto it = inventory.vms.find(name);
  if (it == inventory.vms.end()) return no_vm(name);
  return ok(vm_text(sides, inventory, it->second, not_served(sides.source, is_here(sides, it->second))));
}

Reply list_vms(const Sides& sides) {
  const auto inventory = sides.plane.inventory();
  const bool any_here = std::ranges::any_of(
      inventory->vms, [&sides](const auto& entry) { return is_here(sides, entry.second); });
  const auto troubles = not_served(sides.source, any_here);
  std::vector<std::string> vms;
  for (const auto& [name, vm] : inventory->vms) vms.push_back(vm_text(sides, *inventory, vm, troubles));
  return ok(list_json(vms));
}

Reply edit_vm(const Sides& sides, const std::string& name, const Plane::Edit& edit) {
  return edit_and_show(sides.plane, edit,
                       [&](const Inventory& inventory) { return show_vm(sides, inventory, name); });
}

// The VM and its adapter, or neither.
Reply create(const Sides& sides, const Call& call) {
  Body body(call.body);
  edits::NewVm spec;
  spec.name = body.text("name");
  spec.host = host_name(sides.plane, body.optional_text("host").value_or("self"));
  spec.hardware_version = body.number("hardware_version");
  spec.memory_mib = body.number("memory_mib");
  spec.memory_reserved_mib = body.optional_number("memory_reserved_mib").value_or(0);
  std::optional<edits::NewAdapter> adapter;
  if (auto nested = body.optional_object("adapter")) {
    adapter = read_adapter(*nested);
    body.take_mistake(*nested);
  }
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_vm(sides, spec.name, [&](Inventory& inventory) -> Result<void> {
    auto created = edits::create_vm(inventory, spec);
    if (!created || !adapter) return created;
    return edits::add_adapter(inventory, spec.name, *adapter);
  });
}

Reply change(const Sides& sides, const Call& call) {
  Body body(call.body);
  edits::VmChange change;
  change.host = body.optional_text("host");
  if (change.host) change.host = host_name(sides.plane, *change.host);
  change.memory_mib = body.optional_number("memory_mib");
  change.memory_reserved_mib = body.optional_number("memory_reserved_mib");
  change.protocol = read_protocol(body);
  change.portgroup = body.optional_text("portgroup");
  change.dvs = body.optional_text("dvs");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_vm(sides, call.names[0],
                 [&](Inventory& inventory) { return edits::change_vm(inventory, call.names[0], change); });
}

Reply add_adapter(const Sides& sides, const Call& call) {
  Body body(call.body);
  const edits::NewAdapter spec = read_adapter(body);
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_vm(sides, call.names[0],
                 [&](Inventory& inventory) { return edits::add_adapter(inventory, call.names[0], spec); });
}

Reply upgrade(const Sides& sides, const Call& call) {
  Body body(call.body);
  const std::uint32_t hardware_version = body.number("hardware_version");
  if (const auto read = body.finish(); !read) return refuse(read.error());
  return edit_vm(sides, call.names[0], [&](Inventory& inventory) {
    return edits::upgrade_vm(inventory, call.names[0], hardware_version);
  });
}

Reply launch(const Plane& plane, const Call& call, std::string (*render)(const VmLaunch&)) {
  const auto parameters = vm_launch(*plane.inventory(), call.names[0]);
  return parameters ? ok(render(*parameters)) : refuse(parameters.error());
}

}  // namespace

void add_vm_routes(Router& router, const ApiParts& parts) {
  const auto add = [&](std::string_view method, std::string_view path, std::string_view summary,
                       std::string_view body, std::string_view answer, auto handler) {
    router.add({method, path, summary, body, answer,
                [plane = parts.plane, &source = parts.source, handler](const Call& call) {
                  return handler(Sides{*plane, source}, call);
                },
                "", false, /*of_cluster=*/true});
  };
  add("GET", "/v1/vms", "All VMs", "", "[Vm]",
      [](const Sides& sides, const Call&) { return list_vms(sides); });
  add("POST", "/v1/vms", "Makes a VM, with its adapter if one is given", "NewVm", "Vm", create);
  add("GET", "/v1/vms/{vm}", "One VM", "", "Vm", [](const Sides& sides, const Call& call) {
    return show_vm(sides, *sides.plane.inventory(), call.names[0]);
  });
  add("DELETE", "/v1/vms/{vm}", "Removes a VM that is off", "", "{}",
      [](const Sides& sides, const Call& call) {
        return edit_only(sides.plane,
                         [&](Inventory& inventory) { return edits::delete_vm(inventory, call.names[0]); });
      });
  add("PATCH", "/v1/vms/{vm}", "Changes what is given, of a VM that is off", "VmChange", "Vm", change);
  add("PUT", "/v1/vms/{vm}/adapter", "Adds the VM's PVRDMA adapter", "NewAdapter", "Vm", add_adapter);
  add("DELETE", "/v1/vms/{vm}/adapter", "Removes the VM's PVRDMA adapter", "", "Vm",
      [](const Sides& sides, const Call& call) {
        return edit_vm(sides, call.names[0],
                       [&](Inventory& inventory) { return edits::remove_adapter(inventory, call.names[0]); });
      });
  add("POST", "/v1/vms/{vm}/upgrade", "Upgrades the hardware version; the RoCE protocol stays", "Upgrade",
      "Vm", upgrade);
  add("GET", "/v1/vms/{vm}/qemu-args", "Arguments for QEMU 10.1 or newer", "", "QemuArgs",
      [](const Sides& sides, const Call& call) { return launch(sides.plane, call, qemu_args_json); });
  add("GET", "/v1/vms/{vm}/libvirt-xml", "Fragment of a libvirt domain", "", "LibvirtXml",
      [](const Sides& sides, const Call& call) { return launch(sides.plane, call, libvirt_xml_json); });
}

}  // namespace pvrdma::control
