// support_bundle(): what a report about a fault needs, as one tar: the daemon's answers and metrics, its
// configuration and log, and what doctor says. Thread: any; blocks.
#pragma once

#include <string>

#include "pvrdmactl/grammar.h"
#include "pvrdmactl/output.h"

namespace pvrdma::ctl {

// Makes the file `FILE` of `values`, which only its owner may read, with the configuration that `config`
// names. What cannot be collected is left out and told: the daemon need not run.
// Returns the JSON that the command's text shows: {"file": path, "files": [name], "missing": [sentence]}.
// Errors: the file exists or cannot be written; then there is none.
Result<std::string> support_bundle(const Values& values, const Get& get);

}  // namespace pvrdma::ctl
