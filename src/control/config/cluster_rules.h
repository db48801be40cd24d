// The rules of the tables that make a daemon a member of a cluster: [host], [store], [tcp], and [api].
// Thread: any; blocking (reads the password and the token from their files).
#pragma once

#include "base/result.h"
#include "control/config/config.h"
#include "control/config/setting.h"

namespace pvrdma::control {

// Sets config.cluster and config.api. Error: the first mistake found.
Result<void> apply_cluster_rules(const Document& document, Config& config);

}  // namespace pvrdma::control
