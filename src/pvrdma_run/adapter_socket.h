// Asks a configured daemon for an adapter's socket. Thread: main(); blocks for five seconds at most.
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::run {

// Errors: the daemon does not answer, it has no such adapter, or a VM uses it.
Result<std::string> find_adapter_socket(const std::string& api_socket, const std::string& adapter);

}  // namespace pvrdma::run
