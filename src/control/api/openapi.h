// The API's description as an OpenAPI 3.0 document, made of the routes that serve it. Thread: any.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "control/api/router.h"

namespace pvrdma::control {

std::string openapi_json(const std::vector<Route>& routes, std::string_view version);

// components/schemas of the document, a JSON text: every object that requests and answers are made of.
std::string_view openapi_schemas();

}  // namespace pvrdma::control
