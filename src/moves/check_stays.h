// CheckStays: whether a VM stays on this host, by the cluster's record. What a QEMU's monitor says of a VM on
// its way would only mislead. Thread: any.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"

namespace pvrdma::moves {

// kConflict: the VM is on its way to another host.
using CheckStays = std::function<Result<void>(const std::string& vm)>;

}  // namespace pvrdma::moves
