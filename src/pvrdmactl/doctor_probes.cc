#include "pvrdmactl/doctor_probes.h"

#include <cerrno>
#include <fmt/core.h>
#include <fstream>
#include <string_view>
#include <sys/socket.h>
#include <sys/timex.h>
#include <sys/un.h>

#include "base/fd.h"
#include "base/peer.h"
#include "base/unix_listener.h"
#include "pvrdmactl/program_output.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kPrintedBytesMax = 64 * 1024;
constexpr Duration kPatience = std::chrono::seconds(10);
constexpr std::size_t kArgumentBytesMax = 4 * 1024 * 1024;

struct Listener {
  int error = 0;    // the errno of connecting
  pid_t process{};  // 0: not known, as its backlog is full, or it is in another PID namespace
};

// Connects only once, because a monitor takes one client at a time.
Listener listener_at(const std::string& path) {
  const auto address = unix_address("QEMU's monitor", path);
  if (!address) return {ENAMETOOLONG};
  const Fd client(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!client) return {errno};
  if (::connect(client.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof(*address)) != 0)
    return {errno == EAGAIN ? 0 : errno};
  const auto listener = peer_of(client.get());
  return {0, listener ? listener->pid : 0};
}

// Empty: they cannot be read.
std::vector<std::string> arguments_of(pid_t process) {
  std::ifstream file(fmt::format("/proc/{}/cmdline", process));
  std::vector<std::string> arguments;
  std::size_t bytes = 0;
  for (std::string each; bytes < kArgumentBytesMax && std::getline(file, each, '\0'); bytes += each.size())
    arguments.push_back(each);
  return arguments;
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
  const Listener booted = listener_at(first);
  if (booted.error == 0) return {first, 0, arguments_of(booted.process)};
  const Listener successor = listener_at(next);
  if (successor.error == 0) return {next, 0, arguments_of(successor.process)};
  return {first, booted.error, {}};
}

ClockProbe probe_clock() {
  timex clock{};
  const int state = ::adjtimex(&clock);
  return {.is_synchronised = state >= 0 && state != TIME_ERROR && (clock.status & STA_UNSYNC) == 0,
          .error_ms = clock.maxerror / 1000};
}

}  // namespace pvrdma::ctl
