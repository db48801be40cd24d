#include "device/pci_state.h"

#include "device/describe.h"
#include "device/differing.h"

namespace pvrdma::device {

std::optional<std::string> difference(const PciState& here, const PciState& saved) {
  return differing(here, saved);
}

}  // namespace pvrdma::device
