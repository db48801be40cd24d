// The XML namespace of what we add to the <metadata> of a libvirt domain: the element <vm>, whose text is the
// body of POST /v1/vms that makes the domain's VM. Thread: constant.
#pragma once

namespace pvrdma {

inline constexpr const char* kLibvirtMetadata = "https://pvrdma.invalid/libvirt/domain/1.0";

}  // namespace pvrdma
