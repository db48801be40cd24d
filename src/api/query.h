// The query of a path, as a batch gives it inside a body, where the HTTP server's library does not see it.
//
// Thread: values.
#pragma once

#include <map>
#include <string>
#include <string_view>

namespace pvrdma::api {

// Splits "/a/b?name=value&other=%2F" into the path and the parameters, and decodes both.
void split_query(std::string_view whole, std::string& path, std::multimap<std::string, std::string>& query);

}  // namespace pvrdma::api
