// The API's answers as JSON text. Keys are stable: they are the product's contract with scripts
// (docs/man/pvrdmad.8). Thread: any thread.
#pragma once

#include <string>
#include <string_view>

#include "control/snapshot.h"

namespace pvrdma::control {

std::string version_json(std::string_view version);
std::string adapters_json(const Snapshot& snapshot);
std::string adapter_json(const AdapterSnapshot& adapter);
// Empty `adapter`: all.
std::string qps_json(const Snapshot& snapshot, std::string_view adapter);
std::string stats_json(const Snapshot& snapshot, std::string_view adapter);
std::string error_json(std::string_view sentence);

}  // namespace pvrdma::control
