// read_toml(): a TOML file as a Document. Knows the file's tables, not what their keys mean. Thread: any,
// blocking.
#pragma once

#include <string>

#include "base/result.h"
#include "control/config/section.h"

namespace pvrdma::control {

// Errors: the file cannot be read; it is no TOML (with the line); a table that does not belong there.
Result<Document> read_toml(const std::string& path);

}  // namespace pvrdma::control
