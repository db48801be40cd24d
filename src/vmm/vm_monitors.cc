#include "vmm/vm_monitors.h"

#include <cerrno>
#include <string_view>

#include "base/unix_client.h"

namespace pvrdma::vmm {
namespace {

constexpr std::string_view kSocketSuffix = ".sock";
constexpr std::string_view kFolderSuffix = ".vmm";

bool has_listener(const std::string& path) {
  const auto connected = connect_unix("QEMU's monitor", path);
  return connected || connected.error().code == EAGAIN;
}

}  // namespace

VmMonitors monitors_beside(const std::string& socket) {
  std::string folder = socket;
  if (folder.ends_with(kSocketSuffix)) folder.resize(folder.size() - kSocketSuffix.size());
  folder += kFolderSuffix;
  const auto place = [&folder](const char* name) { return folder + "/" + name; };
  const auto& [first, second, main, cpr] = kSocketNames;
  return {folder, {place(first), place(second)}, place(main), place(cpr)};
}

MonitorsInUse monitors_in_use(const VmMonitors& places) {
  const auto& [first, second] = places.monitors;
  if (!has_listener(first) && has_listener(second)) return {second, first};
  return {first, second};
}

}  // namespace pvrdma::vmm
