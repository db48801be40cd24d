#include "api/vm_launch.h"

#include <fmt/core.h>

#include "api/requests.h"
#include "control/model/rules.h"
#include "vmm/vm_monitors.h"
#include "vocabulary/libvirt_metadata.h"

namespace pvrdma::api {
namespace {

// The vmw_pvrdma driver looks for its vmxnet3 device at function 0 of its own slot.
constexpr int kSlot = 0x10;

std::string device_argument(const VmLaunch& launch) {
  return schema::text_of(schema::Json{{"driver", "vfio-user-pci"},
                                      {"bus", "pcie.0"},
                                      {"addr", fmt::format("{:x}.1", kSlot)},
                                      {"socket", {{"type", "unix"}, {"path", launch.socket}}}});
}

// Escapes a text for use as an option's value: each comma is doubled.
std::string option_value(const std::string& text) {
  std::string value;
  for (const char c : text) value += c == ',' ? ",," : std::string(1, c);
  return value;
}

std::string monitor_argument(const std::string& path) {
  return fmt::format("unix:{},server=on,wait=off", option_value(path));
}

std::vector<std::string> qemu_args(const VmLaunch& launch, const std::string& monitor) {
  return {
      "-object",
      fmt::format("memory-backend-memfd,id=ram,size={}M,share=on", launch.memory_mib),
      "-machine",
      "q35,memory-backend=ram,aux-ram-share=on",
      "-m",
      fmt::format("{}M", launch.memory_mib),
      "-device",
      fmt::format("vmxnet3,netdev=net0,mac={},bus=pcie.0,addr={:x}.0,multifunction=on", launch.mac, kSlot),
      "-device",
      device_argument(launch),
      "-qmp",
      monitor_argument(monitor)};
}

std::string xml_escaped(const std::string& text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '\'':
        escaped += "&apos;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string definition_of(const control::Vm& vm) {
  NewVmBody body;
  body.name = vm.name;
  body.hardware_version = vm.hardware_version;
  body.memory_mib = vm.memory_mib;
  body.memory_reserved_mib = vm.memory_reserved_mib;
  const control::VmAdapter& adapter = *vm.adapter;
  body.adapter = control::edits::NewAdapter{.mac = adapter.mac.to_string(),
                                            .dvs = adapter.dvs,
                                            .portgroup = adapter.portgroup,
                                            .protocol = adapter.protocol,
                                            .profile = adapter.profile,
                                            .doorbells = adapter.doorbells,
                                            .addresses = adapter.addresses,
                                            .owner = adapter.owner,
                                            .group = adapter.group};
  return schema::text_of(body);
}

}  // namespace

Result<VmLaunch> vm_launch(const control::Inventory& inventory, const std::string& vm) {
  if (auto may = control::check_power_on(inventory, vm); !may) return Failure(std::move(may).error());
  const control::Vm& found = inventory.vms.at(vm);
  const auto host = inventory.live_hosts.find(found.host);
  if (host == inventory.live_hosts.end()) {
    return fail(ErrorKind::kConflict,
                fmt::format("VM {}: its host {} is not alive: start pvrdmad there", vm, found.host));
  }
  return VmLaunch{vm, found.adapter->mac.to_string(),
                  fmt::format("{}/{}.sock", host->second.socket_folder, vm), found.memory_mib,
                  definition_of(found)};
}

std::string qemu_args_json(const VmLaunch& launch) {
  return schema::text_of(QemuArgs{qemu_args(launch, vmm::monitors_beside(launch.socket).monitors.front())});
}

std::string incoming_qemu_args_json(const VmLaunch& launch) {
  const vmm::VmMonitors places = vmm::monitors_beside(launch.socket);
  QemuArgs args{qemu_args(launch, vmm::monitors_in_use(places).next)};
  const schema::Json cpr{{"channel-type", "cpr"},
                         {"addr", {{"transport", "socket"}, {"type", "unix"}, {"path", places.cpr}}}};
  for (const std::string& argument :
       {std::string("-S"), std::string("-incoming"), "unix:" + option_value(places.main),
        std::string("-incoming"), schema::text_of(cpr)})
    args.arguments.push_back(argument);
  return schema::text_of(args);
}

std::string restoring_qemu_args_json(const VmLaunch& launch) {
  QemuArgs args{qemu_args(launch, vmm::monitors_beside(launch.socket).monitors.front())};
  for (const char* argument : {"-S", "-incoming", "defer"}) args.arguments.emplace_back(argument);
  return schema::text_of(args);
}

std::string libvirt_xml_json(const VmLaunch& launch) {
  const std::string xml = fmt::format(
      R"(<domain type='kvm' xmlns:qemu='http://libvirt.org/schemas/domain/qemu/1.0'>
  <name>{0}</name>
  <metadata>
    <pvrdma:vm xmlns:pvrdma='{6}'>{7}</pvrdma:vm>
  </metadata>
  <memory unit='MiB'>{1}</memory>
  <memoryBacking>
    <source type='memfd'/>
    <access mode='shared'/>
  </memoryBacking>
  <os>
    <type arch='x86_64' machine='q35'>hvm</type>
  </os>
  <features>
    <acpi/>
    <apic/>
  </features>
  <devices>
    <interface type='network'>
      <source network='default'/>
      <mac address='{2}'/>
      <model type='vmxnet3'/>
      <address type='pci' domain='0x0000' bus='0x00' slot='0x{3:x}' function='0x0' multifunction='on'/>
    </interface>
  </devices>
  <qemu:commandline>
    <qemu:arg value='-machine'/>
    <qemu:arg value='aux-ram-share=on'/>
    <qemu:arg value='-device'/>
    <qemu:arg value='{4}'/>
    <qemu:arg value='-qmp'/>
    <qemu:arg value='{5}'/>
  </qemu:commandline>
</domain>
)",
      xml_escaped(launch.name), launch.memory_mib, launch.mac, kSlot, xml_escaped(device_argument(launch)),
      xml_escaped(monitor_argument(vmm::monitors_beside(launch.socket).monitors.front())), kLibvirtMetadata,
      xml_escaped(launch.definition));
  return schema::text_of(LibvirtXml{xml});
}

}  // namespace pvrdma::api
