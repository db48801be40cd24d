// printed_by(): what another program prints. Thread: any; blocks until the program has ended.
#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::ctl {

// The program's standard output, of which the end is left out if it is longer than about `bytes_max`.
// `command`: the program, which is looked for in PATH, and its arguments. An error if it cannot be run, does
// not end with 0, or has not closed its output after `patience`; then it is killed.
Result<std::string> printed_by(std::vector<std::string> command, std::size_t bytes_max, Duration patience);

}  // namespace pvrdma::ctl
