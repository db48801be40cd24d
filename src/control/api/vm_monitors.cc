#include "control/api/vm_monitors.h"

#include <string_view>
#include <sys/socket.h>

#include "base/fd.h"
#include "base/unix_listener.h"

namespace pvrdma::control {
namespace {

constexpr std::string_view kSocketSuffix = ".sock";

// Who is asked sees a client that leaves at once.
bool has_listener(const std::string& path) {
  const auto address = unix_address("QEMU's monitor", path);
  const Fd socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  return address && socket &&
         ::connect(socket.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) == 0;
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

}  // namespace pvrdma::control
