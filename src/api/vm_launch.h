// VmLaunch: how to start a VM's VMM so that the guest's vmw_pvrdma driver finds the PVRDMA adapter: with
// shared memory, a vmxnet3 at function 0 with the adapter's MAC, and the adapter at function 1 of the same
// slot.
//
// Pure functions. Thread: any.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/result.h"
#include "control/model/inventory.h"
#include "schema/rules.h"

namespace pvrdma::api {

struct VmLaunch {
  std::string name;
  std::string mac;
  std::string socket;
  std::uint32_t memory_mib = 0;
  std::string definition;  // the body of POST /v1/vms that makes the same VM on the host that is asked
};

// Errors: the rule that forbids powering on the VM; kNotFound; kConflict: its host is not alive, so the paths
// of its sockets are unknown.
Result<VmLaunch> vm_launch(const control::Inventory& inventory, const std::string& vm);

struct QemuArgs {
  std::vector<std::string> arguments;
};

struct LibvirtXml {
  std::string xml;
};

// The arguments for QEMU >= 10.1 and its q35 machine. The administrator adds the rest: -netdev ...,id=net0,
// disks, CPUs.
std::string qemu_args_json(const VmLaunch& launch);
// The arguments for a QEMU that waits to take the VM over from the present QEMU. Call it on the VM's host.
std::string incoming_qemu_args_json(const VmLaunch& launch);
// The arguments for a QEMU that waits for a checkpoint of the VM.
std::string restoring_qemu_args_json(const VmLaunch& launch);
// A libvirt <domain> with only those elements that the adapter needs.
std::string libvirt_xml_json(const VmLaunch& launch);

}  // namespace pvrdma::api

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<api::QemuArgs> = record("QemuArgs",
                                                      field("arguments", &api::QemuArgs::arguments));

template <>
inline constexpr auto kObject<api::LibvirtXml> = record("LibvirtXml", field("xml", &api::LibvirtXml::xml));

}  // namespace pvrdma::schema
