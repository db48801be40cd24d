#include "vocabulary/hardware_version.h"

#include <fmt/core.h>

namespace pvrdma {

std::string hardware_versions_with_adapter() {
  std::string text;
  for (std::size_t first = 0; first < kVmHardwareVersions.size();) {
    std::size_t last = first;
    while (last + 1 < kVmHardwareVersions.size() &&
           kVmHardwareVersions[last + 1].number == kVmHardwareVersions[last].number + 1) {
      ++last;
    }
    if (!text.empty()) text += ", ";
    text += std::to_string(kVmHardwareVersions[first].number);
    if (last > first) text += fmt::format(" to {}", kVmHardwareVersions[last].number);
    first = last + 1;
  }
  return text;
}

}  // namespace pvrdma
