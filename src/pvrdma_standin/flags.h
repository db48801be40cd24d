// The command line of pvrdma-standin and its exit codes. Thread: main(), before anything else.
#pragma once

#include <optional>
#include <string_view>

#include "base/log.h"
#include "standin/standin.h"

namespace pvrdma::standin {

// Documented in pvrdma-standin(8).
inline constexpr int kExitEnded = 0;        // stopped by a signal, or idle
inline constexpr int kExitMistake = 2;      // a mistake in the command line, or it cannot start
inline constexpr int kExitAdapterGone = 3;  // the daemon or the adapter has gone

struct Flags {
  StandInOptions options;
  log::Level log_level = log::Level::kInfo;
  bool sandbox = true;
};

struct Parsed {
  std::optional<Flags> flags;  // nullopt: the process ends with exit_code (--help, --version, a mistake)
  int exit_code = 0;
};

// Prints the texts of --help and --version, and a mistake as one sentence.
Parsed parse_flags(int argc, char** argv, std::string_view version);

}  // namespace pvrdma::standin
