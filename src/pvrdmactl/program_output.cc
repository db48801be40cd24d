#include "pvrdmactl/program_output.h"

#include <array>
#include <cerrno>
#include <csignal>
#include <fcntl.h>
#include <poll.h>
#include <spawn.h>
#include <sys/wait.h>
#include <system_error>
#include <unistd.h>

#include "base/fd.h"

namespace pvrdma::ctl {
namespace {

Result<std::string> read_to_end(const Fd& from, std::size_t bytes_max, Instant until) {
  std::string all;
  std::array<char, 4096> piece{};
  while (true) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Instant::now()).count();
    pollfd ready{from.get(), POLLIN, 0};
    const int events = left <= 0 ? 0 : ::poll(&ready, 1, static_cast<int>(left));
    if (events == 0) return fail(ETIMEDOUT, "it does not end");
    if (events < 0 && errno == EINTR) continue;
    const ssize_t bytes = ::read(from.get(), piece.data(), piece.size());
    if (bytes < 0 && errno == EINTR) continue;
    if (bytes <= 0) return all;
    if (all.size() < bytes_max) all.append(piece.data(), static_cast<std::size_t>(bytes));
  }
}

}  // namespace

Result<std::string> printed_by(std::vector<std::string> command, std::size_t bytes_max, Duration patience) {
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
  const Result<std::string> printed = read_to_end(from, bytes_max, Instant::now() + patience);
  if (!printed) ::kill(pid, SIGKILL);
  int status = 0;
  while (::waitpid(pid, &status, 0) < 0 && errno == EINTR) {
  }
  if (!printed) return printed;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0) return fail("it ended with an error");
  return printed;
}

}  // namespace pvrdma::ctl
