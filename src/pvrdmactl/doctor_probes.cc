#include "pvrdmactl/doctor_probes.h"

#include <cerrno>
#include <fmt/core.h>
#include <string_view>

#include "base/unix_listener.h"
#include "pvrdmactl/program_output.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kPrintedBytesMax = 64 * 1024;
constexpr Duration kPatience = std::chrono::seconds(10);

int connect_error(const std::string& path) {
  const auto address = unix_address("QEMU's monitor", path);
  return address ? probe_listener(*address) : ENAMETOOLONG;
}

}  // namespace

QemuProbe probe_qemu(const std::string& program) {
  QemuProbe probe{.program = program};
  const auto version = printed_by({program, "--version"}, kPrintedBytesMax, kPatience);
  if (!version) {
    probe.trouble = version.error().message;
    return probe;
  }
  probe.version_text = *version;
  probe.has_device =
      printed_by({program, "-device", "vfio-user-pci,help"}, kPrintedBytesMax, kPatience).has_value();
  return probe;
}

MonitorProbe probe_monitor(std::string_view adapter_socket) {
  constexpr std::string_view kSuffix = ".sock";
  if (adapter_socket.ends_with(kSuffix)) adapter_socket.remove_suffix(kSuffix.size());
  const std::string first = fmt::format("{}.vmm/qmp", adapter_socket);
  const std::string next = fmt::format("{}.vmm/next.qmp", adapter_socket);
  const int error = connect_error(first);
  if (error != 0 && connect_error(next) == 0) return {next, 0};
  return {first, error};
}

}  // namespace pvrdma::ctl
