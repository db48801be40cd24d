// The API's answers as JSON text. Keys are stable: they are the product's contract with scripts
// (docs/man/pvrdmad.8). Thread: any thread.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/result.h"
#include "control/adapter_control.h"
#include "control/model/inventory.h"
#include "control/plane/plane.h"
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
// QPs that are connected, with the path each has. `host`: this host's name, empty when it has none.
std::string paths_json(const Snapshot& snapshot, std::string_view host);
std::string cluster_json(std::string_view host, const StoreState& store, const TcpSnapshot& tcp);
std::string error_json(std::string_view sentence);

// Parts of answers, without a final newline.
std::string list_json(const std::vector<std::string>& objects);  // of JSON texts
std::string advanced_json(std::string_view path, std::string_view value);
std::string ruleset_json(std::string_view name, const Ruleset& ruleset);
std::string rules_json(std::string_view ruleset, std::uint16_t port);
std::string rdma_stats_json(std::string_view device,
                            const std::vector<std::pair<std::string, std::uint64_t>>& counters);

}  // namespace pvrdma::control
