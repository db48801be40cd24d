// help(): what a command takes, or what is in a namespace, in the layout of esxcli's help. Thread: any.
#pragma once

#include <string>
#include <string_view>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// `words` are a command's, a namespace's, or empty: everything. `program` is the name it was called by.
std::string help(const Grammar& grammar, std::string_view program, std::string_view words);

}  // namespace pvrdma::ctl
