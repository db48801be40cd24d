// Comparing secrets. Thread: any.
#pragma once

#include <string_view>

namespace pvrdma::tls {

// Takes as long however much of them is equal; their sizes are no secret.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace pvrdma::tls
