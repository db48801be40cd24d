// pvrdmad: command line, signals, and the daemon's object graph (daemon.h).
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdio>
#include <ctime>
#include <exception>
#include <fmt/core.h>
#include <optional>
#include <pthread.h>
#include <signal.h>
#include <string>
#include <system_error>
#include <utility>
#include <variant>

#include "base/clean_text.h"
#include "base/descriptor_limit.h"
#include "base/log.h"
#include "base/log_format.h"
#include "base/log_writer.h"
#include "base/socket_owner.h"
#include "base/time.h"
#include "control/config/config.h"
#include "device/eventfd_signal.h"
#include "guestmem/sigbus.h"
#include "keep/descriptor_store.h"
#include "keep/notify.h"
#include "pvrdmad/daemon.h"
#include "pvrdmad/flags.h"
#include "pvrdmad/sandbox.h"
#include "pvrdmad/start_check.h"

namespace pvrdma::daemon {
namespace {

int refuse(const Error& error) {
  const bool to_journal = log::default_format() == log::Format::kJournal;
  log::flush(std::chrono::seconds(1));  // the reason is the last line
  fmt::print(stderr, "{}pvrdmad: {}\n", to_journal ? "<3>" : "", clean_text(error.message));
  return kExitMistake;
}

// Ends a start for which the system had no thread or no memory. systemd starts the daemon again.
int give_up(const std::string& why) {
  refuse({.message = "cannot start: " + why});
  return kExitNoResources;
}

// Whatever the C library and LimitSTACK= say: a thread of the API reads headers by recursion (std::regex of
// cpp-httplib), which takes up to 4 MiB.
void set_thread_stacks() {
  constexpr std::size_t kThreadStackBytes = 8u << 20;
  pthread_attr_t attributes;
  ::pthread_attr_init(&attributes);
  ::pthread_attr_setstacksize(&attributes, kThreadStackBytes);
  ::pthread_setattr_default_np(&attributes);
  ::pthread_attr_destroy(&attributes);
}

std::string membership(const control::Config& config) {
  return config.cluster ? " and those of the cluster's VMs on host " + config.cluster->host_name : "";
}

// Blocks the signals in every thread, because later threads inherit the mask. next_signal() takes them.
sigset_t block_signals() {
  sigset_t signals;
  ::sigemptyset(&signals);
  ::sigaddset(&signals, SIGTERM);
  ::sigaddset(&signals, SIGINT);
  ::sigaddset(&signals, SIGHUP);
  ::pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  ::signal(SIGPIPE, SIG_IGN);  // writing to a client that has left is then an error of its socket
  return signals;
}

// Whether a blocked stop signal is pending. For a start that takes long.
bool stop_asked() {
  sigset_t pending;
  ::sigemptyset(&pending);
  ::sigpending(&pending);
  return ::sigismember(&pending, SIGTERM) == 1 || ::sigismember(&pending, SIGINT) == 1;
}

// Runs until a signal stops the daemon, or until no adapter has had a client for `idle_end`. SIGHUP takes new
// certificates. Their ends are looked at once a day.
const char* serve_until_stopped(Daemon& daemon, std::optional<Duration> idle_end, const sigset_t& signals) {
  constexpr std::time_t kDayS = 86400;
  constexpr std::time_t kIdleLookS = 5;
  const SteadyClock clock;
  std::time_t next_look_s = 0;
  Instant last_client = clock.now();
  while (true) {
    const std::time_t now_s = std::time(nullptr);
    if (now_s >= next_look_s) {
      daemon.certificates().warn_of_end(static_cast<std::uint64_t>(now_s));
      next_look_s = now_s + kDayS;
    }
    if (idle_end) {
      if (daemon.has_client()) last_client = clock.now();
      if (clock.now() - last_client >= *idle_end) return "no client";
    }
    const timespec patience{.tv_sec = std::min(next_look_s - now_s, idle_end ? kIdleLookS : kDayS),
                            .tv_nsec = 0};
    switch (::sigtimedwait(&signals, nullptr, &patience)) {
      case SIGHUP:
        daemon.certificates().reload();
        next_look_s = 0;
        break;
      case SIGINT:
        return "SIGINT";
      case SIGTERM:
        return "SIGTERM";
      default:  // the time has passed, or another signal's handler has run
        break;
    }
  }
}

// Called before any client is served.
Result<void> confine(const control::Config& config) {
  if (!config.daemon.sandbox) {
    log::warn("pvrdmad: not confined: sandbox in [daemon] is false");
    return {};
  }
  if (sandbox::kIsInstrumented) {
    log::warn("pvrdmad: not confined: the instrumentation of this build makes system calls of its own");
    return {};
  }
  const bool keeps_a_file =
      config.cluster && std::holds_alternative<control::SqliteConfig>(config.cluster->store);
  const auto has_link = [&config](LinkKind kind) {
    return std::ranges::any_of(config.roce, [kind](const auto& each) { return each.link.kind == kind; });
  };
  // A VM's folder is taken back from its owner when the daemon stops.
  const bool gives_folders =
      std::ranges::any_of(config.adapters, [](const auto& each) { return each.owner.is_given(); });
  if (config.cluster) load_user_databases();
  const auto confined = enter_sandbox({.open_devices = config.cluster.has_value(),
                                       .write_files = keeps_a_file,
                                       .bind_sockets = config.cluster.has_value() || gives_folders,
                                       .find_links = has_link(LinkKind::kTap) || has_link(LinkKind::kXdp),
                                       .take_taps = has_link(LinkKind::kTap)});
  if (!confined) return Failure(confined.error());
  if (*confined == sandbox::Confinement::kNoSeccomp) {
    log::warn("pvrdmad: not confined: this kernel has no seccomp filters (CONFIG_SECCOMP_FILTER)");
  }
  return {};
}

int serve(const control::Config& config, keep::DescriptorStore* store, const sigset_t& signals) {
  // Each mapping of a guest's memory brings a descriptor, and each interrupt vector is one.
  raise_descriptor_limit();
  if (auto installed = guestmem::install_sigbus_handler(); !installed) return refuse(installed.error());
  if (auto opened = device::open_eventfd_signals(); !opened) return refuse(opened.error());
  auto daemon = Daemon::create(config, PVRDMA_VERSION, stop_asked, store);
  if (!daemon && daemon.error().code == ECANCELED) {
    log::info("pvrdmad: stopped before serving: {}", daemon.error().message);
    return kExitStopped;
  }
  if (!daemon) return refuse(daemon.error());
  if (auto confined = confine(config); !confined) return refuse(confined.error());
  if (auto started = (*daemon)->start(); !started) return refuse(started.error());
  log::info("pvrdmad {}: serves {} adapter(s){}, API at {}", PVRDMA_VERSION, config.adapters.size(),
            membership(config), config.daemon.api_socket);
  keep::notify("READY=1");

  const char* reason = serve_until_stopped(**daemon, config.daemon.idle_end, signals);
  log::info("pvrdmad: stopping because of {}", reason);
  keep::notify("STOPPING=1");
  daemon->reset();
  log::info("pvrdmad: stopped");
  return kExitStopped;
}

int run(int argc, char** argv) {
  const Parsed parsed = parse_flags(argc, argv, PVRDMA_VERSION);
  if (!parsed.flags) return parsed.exit_code;
  const auto store = keep::DescriptorStore::from_environment();
  if (!store) return refuse(store.error());
  // Another exit code makes systemd start the daemon again: it must not drop the descriptors on which VMs
  // depend.
  const bool holds_vms = *store != nullptr && !(*store)->names().empty();
  const int mistake = holds_vms ? kExitMistakeWithVms : kExitMistake;
  const auto config = control::load_config(parsed.flags->sources);
  if (!config) {
    refuse(config.error());
    return mistake;
  }
  if (parsed.flags->check_only) {
    const auto warnings = check_start(*config);
    if (!warnings) return refuse(warnings.error());
    for (const std::string& warning : *warnings) fmt::print(stderr, "pvrdmad: {}\n", warning);
    fmt::print("pvrdmad: the configuration is valid: {} adapter(s){}\n", config->adapters.size(),
               membership(*config));
    return kExitStopped;
  }
  log::set_level(config->daemon.log_level);
  if (config->daemon.log_format) log::set_format(*config->daemon.log_format);
  const sigset_t signals = block_signals();
  set_thread_stacks();
  const int code = serve(*config, store->get(), signals);
  return code == kExitMistake ? mistake : code;
}

}  // namespace
}  // namespace pvrdma::daemon

int main(int argc, char** argv) {
  try {
    return pvrdma::daemon::run(argc, argv);
  } catch (const std::system_error& refusal) {  // std::thread's
    return pvrdma::daemon::give_up(fmt::format(
        "the system gives it no more threads or descriptors ({}): raise TasksMax= and LimitAS= of "
        "its unit, or the limits of its user",
        refusal.code().message()));
  } catch (const std::exception& problem) {
    return pvrdma::daemon::give_up(problem.what());
  }
}
