// pvrdma-run: makes sure that the daemon and a stand-in run, and becomes the command with the preload library
// in its environment.
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fmt/core.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "base/clean_text.h"
#include "pvrdma_run/check.h"
#include "pvrdma_run/flags.h"
#include "pvrdma_run/installation.h"
#include "pvrdma_run/runtime_folder.h"
#include "pvrdma_run/services.h"

namespace pvrdma::run {
namespace {

int refuse(const Error& error) {
  fmt::print(stderr, "pvrdma-run: {}\n", clean_text(error.message));
  return kExitNotStarted;
}

// The value of LD_PRELOAD, with what is in it already.
std::string preload(const std::string& library) {
  const char* const before = std::getenv("LD_PRELOAD");
  if (before == nullptr || before[0] == '\0') return library;
  return std::string(before).find(library) != std::string::npos ? before : library + ":" + before;
}

void set_environment(const Installation& installation, const StandIn& standin) {
  ::setenv("LD_PRELOAD", preload(installation.library).c_str(), 1);
  ::setenv("PVRDMA_STANDIN", standin.folder.c_str(), 1);
}

int become(const std::vector<std::string>& command) {
  std::vector<char*> arguments;
  for (const std::string& each : command) arguments.push_back(const_cast<char*>(each.c_str()));
  arguments.push_back(nullptr);
  ::execvp(arguments[0], arguments.data());
  fmt::print(stderr, "pvrdma-run: cannot run {}: {}\n", clean_text(command.front()), std::strerror(errno));
  return kExitNotStarted;
}

int list(const std::string& runtime) {
  const Running running = list_running(runtime);
  if (!running.daemon && running.nodes.empty()) {
    fmt::print("nothing runs in {}\n", runtime);
    return kExitDone;
  }
  if (running.daemon) fmt::print("pvrdmad  process {}, API at {}/api.sock\n", *running.daemon, runtime);
  for (const Running::Node& node : running.nodes) fmt::print("{}    process {}\n", node.name, node.pid);
  return kExitDone;
}

Wanted wanted_by(const Flags& flags) {
  const bool is_kept = flags.action == Action::kStart || flags.action == Action::kEnvironment;
  return {.node = flags.node,
          .adapter = flags.adapter,
          .api_socket = flags.api_socket,
          .addresses = flags.addresses,
          .gateway_mac = flags.gateway_mac,
          .life = is_kept ? StandInLife::kUntilStopped : StandInLife::kWhileUsed};
}

int use(const Flags& flags, const std::string& runtime) {
  const auto installation = find_installation();
  if (!installation) return refuse(installation.error());
  const auto standin = provide(*installation, runtime, wanted_by(flags));
  if (!standin) return refuse(standin.error());
  if (flags.action == Action::kStart) return kExitDone;
  if (flags.action == Action::kEnvironment) {
    fmt::print("export LD_PRELOAD='{}'\nexport PVRDMA_STANDIN='{}'\n", preload(installation->library),
               standin->folder);
    return kExitDone;
  }
  set_environment(*installation, *standin);
  if (flags.action == Action::kCheck) return check_device() ? kExitDone : 1;
  // The command and its children inherit the connection: while one of them lives, the stand-in does, too.
  ::fcntl(standin->connection.get(), F_SETFD, 0);
  return become(flags.command);
}

int run(int argc, char** argv) {
  const Parsed parsed = parse_flags(argc, argv, PVRDMA_VERSION);
  if (!parsed.flags) return parsed.exit_code;
  const auto runtime = runtime_folder();
  if (!runtime) return refuse(runtime.error());
  switch (parsed.flags->action) {
    case Action::kStop: {
      const auto stopped = stop_all(*runtime);
      return stopped ? kExitDone : refuse(stopped.error());
    }
    case Action::kList:
      return list(*runtime);
    case Action::kRun:
    case Action::kStart:
    case Action::kEnvironment:
    case Action::kCheck:
      break;
  }
  return use(*parsed.flags, *runtime);
}

}  // namespace
}  // namespace pvrdma::run

int main(int argc, char** argv) {
  return pvrdma::run::run(argc, argv);
}
