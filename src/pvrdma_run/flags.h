// The command line of pvrdma-run. Thread: main(), before anything else.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace pvrdma::run {

// Documented in pvrdma-run(1).
inline constexpr int kExitDone = 0;
inline constexpr int kExitNotStarted = 125;  // the command was not started

enum class Action { kRun, kStart, kStop, kList, kEnvironment, kCheck };

struct Flags {
  Action action = Action::kRun;
  unsigned node = 0;                                // of the user's own daemon
  std::string adapter;                              // of a configured daemon; empty: the user's own
  std::string api_socket = "/run/pvrdma/api.sock";  // of the configured daemon
  std::vector<std::string> addresses;
  std::string gateway_mac;           // empty: none is given
  std::vector<std::string> command;  // kRun: at least one
};

struct Parsed {
  std::optional<Flags> flags;  // nullopt: the process ends with exit_code (--help, --version, a mistake)
  int exit_code = 0;
};

// Prints the texts of --help and --version, and a mistake as one sentence.
Parsed parse_flags(int argc, char** argv, std::string_view version);

}  // namespace pvrdma::run
