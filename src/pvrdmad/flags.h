// The daemon's command line. Thread: main(), before anything else.
#pragma once

#include <optional>
#include <string_view>

#include "control/config/config.h"

namespace pvrdma::daemon {

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
