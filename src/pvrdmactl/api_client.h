// get() and put(): one request to the daemon's API over its UNIX socket. Thread: any thread; blocks for some
// seconds at most.
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::ctl {

// The body of the answer to GET `path` ("/v1/adapters"). Errors, each one sentence: the daemon cannot be
// reached at `socket`; it refuses, in its own words.
Result<std::string> get(const std::string& socket, const std::string& path);

// The same for PUT, with a JSON body.
Result<std::string> put(const std::string& socket, const std::string& path, const std::string& body);

}  // namespace pvrdma::ctl
