// Libvirt domains as XML: adds to a domain what its VM's PVRDMA adapter needs.
//
// Pure. Thread: any, one at a time (libxml2 keeps its last error in the thread).
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::ctl {

// `domain`: a domain's XML, which a user gives, perhaps from virsh dumpxml. `fragment`: the domain that GET
// /v1/vms/NAME/libvirt-xml gives. Returns the domain with what the fragment has besides:
// * metadata from which the VM can be made again (libvirt_hook.h). Other metadata stays;
// * the VM's name and memory, and memory that QEMU shares; no memory balloon, as all memory is reserved;
// * ACPI and APIC, without which there are no interrupts by message;
// * the interface with the fragment's MAC as vmxnet3 in the fragment's slot. Its source stays. If no
//   interface has the MAC, the fragment's is added;
// * the fragment's arguments for QEMU. Further arguments stay.
// All else stays as it is, except for blanks and indentation. The result of a second call is the same as that
// of the first.
// Errors, each one sentence with the way out (kInvalid): no XML; no domain of QEMU; another VM's name; not
// the machine q35; another device in the adapter's slot; memory that can be added later.
Result<std::string> merge_domain(const std::string& domain, const std::string& fragment);

}  // namespace pvrdma::ctl
