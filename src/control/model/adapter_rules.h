// What a VM needs for a PVRDMA adapter. It is checked when the adapter is made or changed, and again before
// power-on, because the objects around it may have changed.
//
// kConflict: a rule forbids it; kNotFound: an object is missing. Thread: any.
#pragma once

#include <string>

#include "base/result.h"
#include "control/model/inventory.h"

namespace pvrdma::control {

// The VM has one of the hardware versions with adapters.
Result<void> check_hardware_version(const Vm& vm);

// `protocol` is one that the VM's hardware version offers. The hardware version has adapters.
Result<void> check_protocol(const Vm& vm, RoceVersion protocol);

// The switch has a version with PVRDMA, the port group exists, and the VM's host is a member of the switch.
Result<void> check_place(const Inventory& inventory, const Vm& vm, const std::string& dvs,
                         const std::string& portgroup);

// Each address is one that an interface may have, and no other VM of the segment lists it.
Result<void> check_addresses(const Inventory& inventory, const Vm& vm);

// All four checks above, for a VM that has an adapter.
Result<void> check_adapter(const Inventory& inventory, const Vm& vm);

// The RDMA device of `host` that is paired with `vmnic`. Null: there is no such device, or the host is not
// alive.
const RdmaDevice* paired_with(const Inventory& inventory, const std::string& host, const std::string& vmnic);
// Checks the (present or future) uplinks of `host` on `dvs`, `assigned`: an uplink that is paired with an
// RDMA device must be the only one.
Result<void> check_no_teaming(const Inventory& inventory, const std::string& dvs, const std::string& host,
                              const Dvs::Assigned& assigned);

}  // namespace pvrdma::control
