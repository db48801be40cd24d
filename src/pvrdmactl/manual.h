// manual(): the generated parts of pvrdmactl(1), as mdoc: for each command its synopsis, its help and its
// options. tools/manual writes them into the page, beside what only people can say. Thread: any.
#pragma once

#include <string>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// Each part stands between the lines `.\" generated: NAME` and `.\" end`. NAME is the words of a command, or
// an option that every command takes, such as "--json".
std::string manual(const Grammar& grammar);

}  // namespace pvrdma::ctl
