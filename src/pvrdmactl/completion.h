// bash_completion(): the script that completes pvrdmactl's words, options and choices in bash. The build
// writes it to a file beside the program, which is installed. Thread: any.
#pragma once

#include <string>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

std::string bash_completion(const Grammar& grammar);

}  // namespace pvrdma::ctl
