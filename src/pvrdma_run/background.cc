#include "pvrdma_run/background.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <fmt/core.h>
#include <fstream>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/peer.h"
#include "base/unix_listener.h"

namespace pvrdma::run {
namespace {

constexpr auto kPatience = std::chrono::seconds(10);
constexpr auto kPause = std::chrono::milliseconds(2);

// Runs in the new process. Returns only if the program cannot be executed.
void become(const std::vector<std::string>& command, const std::string& log, int report) {
  ::setsid();
  ::unsetenv("LD_PRELOAD");
  ::unsetenv("PVRDMA_STANDIN");
  const int null = ::open("/dev/null", O_RDONLY);
  const int output = ::open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW, 0600);
  if (null < 0 || output < 0 || ::dup2(null, 0) < 0 || ::dup2(output, 1) < 0 || ::dup2(output, 2) < 0) return;
  if (::dup2(report, 3) < 0 || ::fcntl(3, F_SETFD, FD_CLOEXEC) < 0) return;
  ::close_range(4, ~0U, 0);
  if (::chdir("/") != 0) return;
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execv(arguments[0], arguments.data());
}

// What the new process says before its program runs: its id, or why there is no program.
struct Report {
  pid_t pid = 0;
  int error = 0;
};

Result<pid_t> launch(const std::vector<std::string>& command, const std::string& log) {
  std::array<int, 2> ends{};
  if (::pipe2(ends.data(), O_CLOEXEC) != 0) return fail_errno(errno, "making a pipe");
  const Fd reader(ends[0]);
  Fd writer(ends[1]);
  const pid_t between = ::fork();
  if (between < 0) return fail_errno(errno, "starting a process");
  if (between == 0) {
    if (::fork() == 0) {
      Report report{::getpid(), 0};
      (void)!::write(writer.get(), &report, sizeof report);
      become(command, log, writer.get());
      report.error = errno;
      (void)!::write(writer.get(), &report, sizeof report);
    }
    ::_exit(0);
  }
  writer.reset();
  int status = 0;
  while (::waitpid(between, &status, 0) < 0 && errno == EINTR) {
  }
  Report report{0, EAGAIN};
  Report next;
  while (::read(reader.get(), &next, sizeof next) == sizeof next) report = next;
  if (report.error != 0) return fail_errno(report.error, fmt::format("starting {}", command.front()));
  return report.pid;
}

std::string last_line(const std::string& path) {
  std::ifstream file(path);
  std::string line;
  std::string last;
  while (std::getline(file, line)) {
    if (!line.empty()) last = line;
  }
  return clean_text(last);
}

}  // namespace

Result<void> start_in_background(const std::vector<std::string>& command, const std::string& log,
                                 const std::function<bool()>& is_ready) {
  const auto pid = launch(command, log);
  if (!pid) return Failure(pid.error());
  const Fd process(
      static_cast<int>(::syscall(SYS_pidfd_open, *pid, 0)));  // also of one that nobody waits for
  pollfd end{.fd = process.get(), .events = POLLIN};
  const auto deadline = std::chrono::steady_clock::now() + kPatience;
  while (!is_ready()) {
    const bool has_ended = process ? ::poll(&end, 1, 0) == 1 : ::kill(*pid, 0) != 0;
    if (has_ended) return fail(fmt::format("{} has ended: {}", command.front(), last_line(log)));
    if (std::chrono::steady_clock::now() > deadline)
      return fail(
          fmt::format("{} is not ready after 10 s: see {}: {}", command.front(), log, last_line(log)));
    std::this_thread::sleep_for(kPause);
  }
  return {};
}

std::optional<Fd> connect_to(const std::string& socket, int type) {
  const auto address = unix_address("socket", socket);
  Fd client(::socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
  if (!address || !client ||
      ::connect(client.get(), reinterpret_cast<const sockaddr*>(&*address), sizeof *address) != 0)
    return std::nullopt;
  return client;
}

std::optional<pid_t> listener_of(const std::string& socket, int type) {
  const auto client = connect_to(socket, type);
  const auto peer = client ? peer_of(client->get()) : std::nullopt;
  return peer ? std::optional(peer->pid) : std::nullopt;
}

Result<void> end_process(pid_t pid) {
  const Fd process(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
  if (!process || ::kill(pid, SIGTERM) != 0) {
    if (errno == ESRCH) return {};  // it has just ended
    return fail_errno(errno, fmt::format("ending process {}", pid));
  }
  pollfd end{.fd = process.get(), .events = POLLIN};
  const auto patience_ms = std::chrono::milliseconds(kPatience).count();
  if (::poll(&end, 1, static_cast<int>(patience_ms)) == 1) return {};
  return fail(fmt::format("process {} has not ended 10 s after SIGTERM: end it with kill -9 {}", pid, pid));
}

}  // namespace pvrdma::run
