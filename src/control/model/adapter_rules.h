// What a VM needs for a PVRDMA adapter. Checked when the adapter is made or changed, and again before
// power-on, since the objects around it may have changed.
//
// EPERM: a rule forbids it; ENOENT: an object is missing. Thread: any.
#pragma once

#include <string>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

// One of those that have adapters.
Result<void> check_hardware_version(const Vm& vm);

// One that the hardware version, which has adapters, offers.
Result<void> check_protocol(const Vm& vm, RoceVersion protocol);

// The switch has a version with PVRDMA, the port group exists, and the VM's host is a member.
Result<void> check_place(const Inventory& inventory, const Vm& vm, const std::string& dvs,
                         const std::string& portgroup);

// No other VM of its segment lists one of its addresses, and each is one that an interface may have.
Result<void> check_addresses(const Inventory& inventory, const Vm& vm);

// The four above: all that the adapter of `vm`, which has one, needs.
Result<void> check_adapter(const Inventory& inventory, const Vm& vm);

// The RDMA device of `host` that is paired with `vmnic`. Null: none, or the host is not alive.
const RdmaDevice* paired_with(const Inventory& inventory, const std::string& host, const std::string& vmnic);
// `assigned` are, or would be, the uplinks of `host` on `dvs`: one that is paired with an RDMA device is
// alone.
Result<void> check_no_teaming(const Inventory& inventory, const std::string& dvs, const std::string& host,
                              const Dvs::Assigned& assigned);

}  // namespace pvrdma::control
