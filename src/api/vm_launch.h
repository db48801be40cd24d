// VmLaunch: how a VM's VMM is to be started so that its PVRDMA adapter is a guest's vmw_pvrdma device: shared
// memory, a vmxnet3 at function 0 with the adapter's MAC, and the adapter at function 1 of the same slot.
//
// Pure. Thread: any.
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
};

// Errors: the rule that forbids to power the VM on; ENOENT; EPERM: its host is not alive, so nobody knows
// where its sockets are.
Result<VmLaunch> vm_launch(const control::Inventory& inventory, const std::string& vm);

struct QemuArgs {
  std::vector<std::string> arguments;
};

struct LibvirtXml {
  std::string xml;
};

// For QEMU >= 10.1 and its q35 machine. What they do not say is the admin's: -netdev ...,id=net0, disks,
// CPUs.
std::string qemu_args_json(const VmLaunch& launch);
// The same of a QEMU that waits to take the VM over from the one that runs it. To be made where the VM is.
std::string incoming_qemu_args_json(const VmLaunch& launch);
// Of a QEMU that waits for a checkpoint of the VM.
std::string restoring_qemu_args_json(const VmLaunch& launch);
// A <domain> with only what the adapter needs.
std::string libvirt_xml_json(const VmLaunch& launch);

}  // namespace pvrdma::api

namespace pvrdma::schema {

template <>
inline constexpr auto kObject<api::QemuArgs> = record("QemuArgs",
                                                      field("arguments", &api::QemuArgs::arguments));

template <>
inline constexpr auto kObject<api::LibvirtXml> = record("LibvirtXml", field("xml", &api::LibvirtXml::xml));

}  // namespace pvrdma::schema
