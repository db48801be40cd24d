// send(): one request to the daemon's API. Thread: any thread; blocks until its answer is there, for some
// seconds at most without a byte of it.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/endpoint.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

// What is done with each piece of an answer. Error: no more is wanted, and send() fails with it.
using Take = std::function<Result<void>(std::string_view piece)>;

// As the other send(), but an answer that is no refusal is handed over piece by piece as it comes, for as
// long as the daemon has more to say.
Result<void> send(const Endpoint& endpoint, const Request& request, const Take& take);

// The body of the answer. Errors, each one sentence: the daemon cannot be reached, or is not who it should
// be; the token or the CA file cannot be used; the daemon refuses, in its own words.
Result<std::string> send(const Endpoint& endpoint, const Request& request);

}  // namespace pvrdma::ctl
