// pvrdma-standin: command line, signals and the stand-in (standin/standin.h).
#include <cerrno>
#include <cstdio>
#include <fmt/core.h>
#include <pthread.h>
#include <signal.h>
#include <sys/signalfd.h>

#include "base/clean_text.h"
#include "base/descriptor_limit.h"
#include "base/fd.h"
#include "base/log.h"
#include "pvrdma_standin/flags.h"
#include "sandbox/sandbox.h"

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

// Called before any program is served. From then on the stand-in writes no file and makes no socket but UNIX
// ones; those by which it asks for neighbors are open.
Result<void> confine(bool wanted) {
  if (!wanted || sandbox::kIsInstrumented) {
    log::warn("pvrdma-standin: not confined: {}",
              wanted ? "the instrumentation of this build makes system calls of its own" : "--no-sandbox");
    return {};
  }
  const auto confined = sandbox::enter({.refusal = "pvrdma-standin: sandbox: refused system call",
                                        .way_out = "give --no-sandbox to do without it"},
                                       sandbox::allow_serving);
  if (!confined) return Failure(confined.error());
  if (*confined == sandbox::Confinement::kNoSeccomp)
    log::warn("pvrdma-standin: not confined: this kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)");
  return {};
}

int run(int argc, char** argv) {
  const Parsed parsed = parse_flags(argc, argv, PVRDMA_VERSION);
  if (!parsed.flags) return parsed.exit_code;
  log::set_level(parsed.flags->log_level);
  const auto stop = stop_descriptor();
  if (!stop) return refuse(stop.error());
  raise_descriptor_limit();  // each completion channel is a descriptor
  auto standin = StandIn::create(parsed.flags->options);
  if (!standin) return refuse(standin.error());
  if (auto confined = confine(parsed.flags->sandbox); !confined) return refuse(confined.error());
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
