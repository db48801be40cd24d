// pvrdma-standin: command line, signals and the stand-in (standin/standin.h).
#include <cerrno>
#include <cstdio>
#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/signalfd.h>

#include "base/clean_text.h"
#include "base/fd.h"
#include "base/log.h"
#include "pvrdma_standin/flags.h"

namespace pvrdma::standin {
namespace {

int refuse(const Error& error) {
  fmt::print(stderr, "pvrdma-standin: {}\n", clean_text(error.message));
  return kExitMistake;
}

// Readable when a signal asks the process to stop.
Result<Fd> stop_descriptor() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);
  Fd fd(::signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK));
  if (!fd) return fail_errno(errno, "making a descriptor of the stop signals");
  return fd;
}

// Each completion channel is a descriptor.
void raise_descriptor_limit() {
  rlimit limit{};
  if (::getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

int run(int argc, char** argv) {
  const Parsed parsed = parse_flags(argc, argv, PVRDMA_VERSION);
  if (!parsed.flags) return parsed.exit_code;
  log::set_level(parsed.flags->log_level);
  const auto stop = stop_descriptor();
  if (!stop) return refuse(stop.error());
  raise_descriptor_limit();
  auto standin = StandIn::create(parsed.flags->options);
  if (!standin) return refuse(standin.error());
  log::info("pvrdma-standin {}: lets processes use the adapter at {}: folder {}", PVRDMA_VERSION,
            parsed.flags->options.socket, parsed.flags->options.folder);
  switch ((*standin)->run(stop->get())) {
    case End::kStopped:
      log::info("pvrdma-standin: stopped by a signal");
      return kExitEnded;
    case End::kIdle:
      log::info("pvrdma-standin: ends: no process uses the adapter");
      return kExitEnded;
    case End::kAdapterGone:
      log::error("pvrdma-standin: ends: the daemon has closed the adapter at {}",
                 parsed.flags->options.socket);
      return kExitAdapterGone;
  }
  return kExitEnded;
}

}  // namespace
}  // namespace pvrdma::standin

int main(int argc, char** argv) {
  return pvrdma::standin::run(argc, argv);
}
