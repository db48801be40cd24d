// "/v1/hosts/{host}/...": what only the daemon of a host knows, read by way of another host's daemon.
//
// Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "api/routes.h"

namespace pvrdma::api {

// True if a daemon answers a GET of this path for the daemons of other hosts. None of these answers is a
// stream, and none leads to a third host.
bool is_relayed(std::string_view path);

// Adds the routes. The router has all others already.
void add_relay_routes(Router& router, const ApiParts& parts);

}  // namespace pvrdma::api
