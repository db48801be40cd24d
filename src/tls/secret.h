// Comparing secrets. Thread: any.
#pragma once

#include <string_view>

namespace pvrdma::tls {

// Compares in a time that does not depend on the contents. The sizes are not secret.
bool is_same_secret(std::string_view a, std::string_view b);

}  // namespace pvrdma::tls
