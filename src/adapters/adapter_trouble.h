// AdapterTrouble: why an adapter is not served. Thread: values.
#pragma once

#include <string>

namespace pvrdma::adapters {

// A VM placed on this host whose adapter cannot be served.
struct AdapterTrouble {
  std::string vm;
  std::string why;
  friend bool operator==(const AdapterTrouble&, const AdapterTrouble&) = default;
};

}  // namespace pvrdma::adapters
