// send(): one request to the daemon's API. Thread: any thread; blocks for some seconds at most.
#pragma once

#include <string>

#include "base/result.h"
#include "pvrdmactl/endpoint.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

// The body of the answer. Errors, each one sentence: the daemon cannot be reached, or is not who it should
// be; the token or the CA file cannot be used; the daemon refuses, in its own words.
Result<std::string> send(const Endpoint& endpoint, const Request& request);

}  // namespace pvrdma::ctl
