#include "pvrdmactl/doctor_probes.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>
#include <vector>

#include "base/fd.h"
#include "base/result.h"
#include "base/unix_listener.h"

namespace pvrdma::ctl {
namespace {

constexpr std::size_t kPrintedBytesMax = 64 * 1024;

// What the program printed on standard output. An error if it cannot be run, or does not end with 0.
Result<std::string> printed_by(std::vector<std::string> command) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "no pipe for " + command.front());
  const Fd from(ends[0]);
  Fd into(ends[1]);
  std::vector<char*> argv;
  for (std::string& word : command) argv.push_back(word.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, into.get(), STDOUT_FILENO);
  ::posix_spawn_file_actions_addopen(&actions, STDERR_FILENO, "/dev/null", O_WRONLY, 0);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, argv.front(), &actions, nullptr, argv.data(), environ);
  ::posix_spawn_file_actions_destroy(&actions);
  into.reset();
  if (error != 0) return fail(error, std::generic_category().message(error));
  std::string printed;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t bytes = ::read(from.get(), piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    if (printed.size() < kPrintedBytesMax) printed.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return fail("it ended with an error");
  return printed;
}

}  // namespace

QemuProbe probe_qemu(const std::string& program) {
  QemuProbe probe{.program = program};
  const auto version = printed_by({program, "--version"});
  if (!version) {
    probe.trouble = version.error().message;
    return probe;
  }
  probe.version_text = *version;
  probe.has_device = printed_by({program, "-device", "vfio-user-pci,help"}).has_value();
  return probe;
}

std::string monitor_path(const std::string& adapter_socket) {
  constexpr std::string_view kSuffix = ".sock";
  std::string stem = adapter_socket;
  if (stem.ends_with(kSuffix)) stem.resize(stem.size() - kSuffix.size());
  return stem + ".qmp";
}

int connect_error(const std::string& path) {
  const auto address = unix_address("QEMU's monitor", path);
  return address ? probe_listener(*address) : ENAMETOOLONG;
}

}  // namespace pvrdma::ctl
