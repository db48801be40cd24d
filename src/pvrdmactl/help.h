// help(): the arguments of a command, or the contents of a namespace, in the layout of esxcli's help. Thread:
// any.
#pragma once

#include <string>
#include <string_view>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// `words` are those of a command or a namespace; empty: everything. `program` is the name by which the
// program was called.
std::string help(const Grammar& grammar, std::string_view program, std::string_view words);

}  // namespace pvrdma::ctl
