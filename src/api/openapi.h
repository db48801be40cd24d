// The description of the API as an OpenAPI 3.0 document. It is made from the routes that are served. Thread:
// any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/router.h"

namespace pvrdma::api {

std::string openapi_json(const std::vector<Route>& routes, std::string_view version);

}  // namespace pvrdma::api
