// Edits of the cluster's configuration, each told as an event: what changed, and which client asked for it.
//
// Thread: any.
#pragma once

#include <string>
#include <vector>

#include "base/result.h"
#include "control/model/configuration_changes.h"
#include "control/plane/plane.h"

namespace pvrdma::api {

// `initiator` is Call::client.
void tell_edits(const std::vector<control::ObjectChange>& changes, const std::string& initiator);

Result<void> edit_and_tell(control::Plane& plane, const std::string& initiator,
                           const control::Plane::Edit& edit);

}  // namespace pvrdma::api
