// The API's description as an OpenAPI 3.0 document, made of the routes that serve it. Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "api/router.h"

namespace pvrdma::api {

std::string openapi_json(const std::vector<Route>& routes, std::string_view version);

}  // namespace pvrdma::api
