// The daemon's command line and its exit codes. Thread: main(), before anything else.
#pragma once

#include <optional>
#include <string_view>

#include "control/config/config.h"

namespace pvrdma::daemon {

// The daemon's exit codes, documented in pvrdmad(8).
inline constexpr int kExitStopped = 0;  // stopped by a signal, or --check found no mistake
// A mistake in the command line, the configuration or a socket: nothing was started.
inline constexpr int kExitMistake = 2;
inline constexpr int kExitMistakeWithVms = 3;  // a mistake while VMs' adapters are kept for this service
inline constexpr int kExitNoResources = 4;     // the system had no thread or no memory for it

struct Flags {
  control::ConfigSources sources;
  bool check_only = false;
};

struct Parsed {
  std::optional<Flags> flags;  // nullopt: the process ends with exit_code (--help, --version, a mistake)
  int exit_code = 0;
};

// Prints the texts of --help and --version, and a mistake as one sentence.
Parsed parse_flags(int argc, char** argv, std::string_view version);

}  // namespace pvrdma::daemon
