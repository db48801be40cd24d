// printed_by(): what another program prints. Thread: any; blocks until the program has ended.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"

namespace pvrdma::ctl {

// The program's standard output, of which the end is left out if it is longer than about `bytes_max`.
// `command`: the program, which is looked for in PATH, and its arguments. An error if it cannot be run, or
// does not end with 0.
Result<std::string> printed_by(std::vector<std::string> command, std::size_t bytes_max);

}  // namespace pvrdma::ctl
