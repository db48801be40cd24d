#include "pvrdmactl/program_output.h"

#include <array>
#include <cerrno>
#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma::ctl {

Result<std::string> printed_by(std::vector<std::string> command, std::size_t bytes_max) {
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
    if (printed.size() < bytes_max) printed.append(piece.data(), static_cast<std::size_t>(bytes));
  }
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return fail("it ended with an error");
  return printed;
}

}  // namespace pvrdma::ctl
