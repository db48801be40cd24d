// Helpers of the sandbox's tests. A process cannot leave the sandbox, so each case confines a child process.
// Thread: the test's.
#pragma once

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <stdexcept>
#include <string>
#include <sys/wait.h>
#include <unistd.h>

#include "pvrdmad/sandbox.h"

namespace pvrdma::daemon {

struct Outcome {
  int exit_code = -1;  // -1: a signal ended it
  std::string log;     // the process's standard error
};

// Runs `body` in a confined child process. Its result is the exit code: 0 if all was as expected.
template <typename Body>
Outcome confined(const SandboxNeeds& needs, Body body) {
  int ends[2];
  if (::pipe(ends) != 0) throw std::runtime_error("pipe");
  const pid_t child = ::fork();
  if (child == 0) {
    ::dup2(ends[1], STDERR_FILENO);
    ::close(ends[0]);
    ::close(ends[1]);
    const auto entered = enter_sandbox(needs);
    if (!entered) ::dprintf(STDERR_FILENO, "%s\n", entered.error().message.c_str());
    ::_exit(entered && *entered == sandbox::Confinement::kConfined ? body() : 99);
  }
  ::close(ends[1]);
  Outcome outcome;
  char bytes[4096];
  for (ssize_t got = 0; (got = ::read(ends[0], bytes, sizeof(bytes))) > 0;) {
    outcome.log.append(bytes, static_cast<std::size_t>(got));
  }
  ::close(ends[0]);
  int status = 0;
  ::waitpid(child, &status, 0);
  if (WIFEXITED(status)) outcome.exit_code = WEXITSTATUS(status);
  return outcome;
}

inline bool is_refused(long result) {
  return result == -1 && errno == EPERM;
}

inline std::size_t lines_in(const std::string& text) {
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}

}  // namespace pvrdma::daemon
