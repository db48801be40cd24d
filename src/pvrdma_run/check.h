// pvrdma-run --check: tries what programs need, step by step. Thread: main().
#pragma once

#include <string>

namespace pvrdma::run {

// Prints a line for each step. Returns false if one has failed. The environment is that of programs.
bool check_device();

}  // namespace pvrdma::run
