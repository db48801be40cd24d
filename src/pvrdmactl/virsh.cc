#include "pvrdmactl/virsh.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <fmt/core.h>
#include <spawn.h>
#include <string_view>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "base/fd.h"

extern char** environ;

namespace pvrdma::ctl {
namespace {

constexpr const char* kProgram = "virsh";
constexpr int kSignalled = 128;

enum class Words : bool { kOfTheUser, kEnglish };  // the language of its output

Result<pid_t> spawn(std::vector<std::string>& arguments, int output, Words words) {
  std::vector<char*> variables;
  std::string english = "LC_ALL=C";
  for (char** each = environ; *each != nullptr; ++each) {
    if (words == Words::kOfTheUser || !std::string_view(*each).starts_with("LC_ALL="))
      variables.push_back(*each);
  }
  if (words == Words::kEnglish) variables.push_back(english.data());
  variables.push_back(nullptr);
  std::vector<char*> argv{const_cast<char*>(kProgram)};
  for (std::string& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, STDIN_FILENO, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_adddup2(&actions, output, STDOUT_FILENO);
  // interrupt() sends SIGINT. A shell lets what it starts in the background ignore it, and virsh would
  // inherit that.
  sigset_t interruption;
  ::sigemptyset(&interruption);
  ::sigaddset(&interruption, SIGINT);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setsigdefault(&attributes, &interruption);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETSIGDEF);
  pid_t pid = 0;
  const int error = ::posix_spawnp(&pid, kProgram, &actions, &attributes, argv.data(), variables.data());
  ::posix_spawnattr_destroy(&attributes);
  ::posix_spawn_file_actions_destroy(&actions);
  if (error == 0) return pid;
  return fail(error, fmt::format("cannot run virsh: {} (it is in Debian's package libvirt-clients)",
                                 std::generic_category().message(error)));
}

}  // namespace

Result<Virsh> Virsh::start(std::vector<std::string> arguments) {
  const auto pid = spawn(arguments, STDERR_FILENO, Words::kOfTheUser);
  if (!pid) return Failure(pid.error());
  return Virsh(*pid);
}

Result<std::string> Virsh::ask(std::vector<std::string> arguments) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail(errno, "no pipe for virsh");
  const Fd from(ends[0]);
  Fd into(ends[1]);
  const auto pid = spawn(arguments, into.get(), Words::kEnglish);
  into.reset();
  if (!pid) return Failure(pid.error());
  Virsh virsh(*pid);
  std::string printed;
  std::array<char, 4096> piece{};
  while (true) {
    const ssize_t bytes = ::read(from.get(), piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) break;
    printed.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  if (const auto status = virsh.reap(Wait::kYes); *status != 0)
    return fail(fmt::format("virsh {} ended with {}", arguments.front(), *status));
  return printed;
}

void Virsh::interrupt() {
  if (pid_ != 0) ::kill(pid_, SIGINT);
}

Virsh::~Virsh() {
  if (pid_ != 0) reap(Wait::kYes);
}

// Always returns a status with Wait::kYes.
std::optional<int> Virsh::reap(Wait wait) {
  if (pid_ == 0) return status_;
  int status = 0;
  pid_t done = 0;
  do {
    done = ::waitpid(pid_, &status, wait == Wait::kYes ? 0 : WNOHANG);
  } while (done < 0 && errno == EINTR);
  if (done == 0) return std::nullopt;
  pid_ = 0;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : kSignalled + WTERMSIG(status);
  return status_;
}

}  // namespace pvrdma::ctl
