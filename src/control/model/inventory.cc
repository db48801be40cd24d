#include "control/model/inventory.h"

#include <algorithm>

namespace pvrdma::control {

Ruleset Host::effective_ruleset() const {
  if (firewall) return pvrdma_ruleset;
  return {.enabled = true, .allow_all = true, .allowed = {}};
}

bool Ruleset::admits(const IpAddress& address) const {
  return allow_all || std::any_of(allowed.begin(), allowed.end(),
                                  [&](const IpNetwork& network) { return network.contains(address); });
}

const IpAddress* Host::tagged_address() const {
  const auto it = vmks.find(pvrdma_vmknic);
  return it == vmks.end() ? nullptr : &it->second;
}

}  // namespace pvrdma::control
