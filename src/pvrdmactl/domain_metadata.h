// What a libvirt domain's <metadata> says of its VM.
//
// Pure. Thread: any, one at a time (libxml2 keeps its last error in the thread).
#pragma once

#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

struct DomainVm {
  std::string name;               // of the VM and of the domain
  Json definition;                // an object: the body of POST /v1/vms that makes the VM
  std::vector<std::string> macs;  // of the domain's interfaces, as libvirt writes them
};

// `domain`: a domain's XML. Empty: its metadata has no VM of ours; other mistakes in the XML do not matter
// then. Errors (kConflict), each one sentence with the way out: the XML or the definition cannot be read; the
// domain has another name than the VM, as the copy of a domain has.
Result<std::optional<DomainVm>> vm_of_domain(const std::string& domain);

}  // namespace pvrdma::ctl
