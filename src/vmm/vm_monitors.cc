#include "vmm/vm_monitors.h"

#include <string_view>

#include "base/unix_listener.h"

namespace pvrdma::vmm {
namespace {

constexpr std::string_view kSocketSuffix = ".sock";

bool has_listener(const std::string& path) {
  const auto address = unix_address("QEMU's monitor", path);
  return address && probe_listener(*address) == 0;
}

}  // namespace

VmMonitors monitors_beside(const std::string& socket) {
  std::string stem = socket;
  if (stem.ends_with(kSocketSuffix)) stem.resize(stem.size() - kSocketSuffix.size());
  return {{stem + ".qmp", stem + ".next.qmp"}, stem + ".main", stem + ".cpr"};
}

MonitorsInUse monitors_in_use(const VmMonitors& places) {
  const auto& [first, second] = places.monitors;
  if (!has_listener(first) && has_listener(second)) return {second, first};
  return {first, second};
}

}  // namespace pvrdma::vmm
