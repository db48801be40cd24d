// send(): one request to the daemon's API. Thread: any thread; blocks until the answer has arrived, or no
// byte of it has come for some seconds.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/endpoint.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

// Takes each piece of an answer. An error ends the transfer, and send() returns it.
using Take = std::function<Result<void>(std::string_view piece)>;

// As the other send(), but passes a successful answer to `take` piece by piece as it arrives, until the
// daemon ends it.
Result<void> send(const Endpoint& endpoint, const Request& request, const Take& take);

// Returns the body of the answer. Errors, each one sentence: the daemon cannot be reached or cannot prove its
// identity; the token or the CA file is unusable; the daemon refuses, in its own words.
Result<std::string> send(const Endpoint& endpoint, const Request& request);

}  // namespace pvrdma::ctl
