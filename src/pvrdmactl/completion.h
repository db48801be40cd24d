// bash_completion(): the script that completes pvrdmactl's words, options and choices in bash.
// The build writes its output beside the program, to be installed. Thread: any.
#pragma once

#include <string>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

std::string bash_completion(const Grammar& grammar);

}  // namespace pvrdma::ctl
