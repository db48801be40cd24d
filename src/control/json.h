// The API's answers as JSON text. Keys are stable: they are the product's contract with scripts
// (docs/man/pvrdmad.8). Thread: any thread.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "control/adapter_control.h"
#include "control/snapshot.h"

namespace pvrdma::control {

std::string version_json(std::string_view version);
std::string adapters_json(const Snapshot& snapshot);
std::string adapter_json(const AdapterSnapshot& adapter);
// Empty `adapter`: all.
std::string qps_json(const Snapshot& snapshot, std::string_view adapter);
std::string stats_json(const Snapshot& snapshot, std::string_view adapter);
// The body of PUT /v1/adapters/NAME/link: {"up": true} or {"up": false}, nothing else. Errors: what is wrong
// with it.
Result<Link> parse_link(std::string_view body);
std::string error_json(std::string_view sentence);

}  // namespace pvrdma::control
