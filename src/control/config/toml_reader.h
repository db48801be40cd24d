// read_toml(): reads a TOML file as a Document. It knows the file's tables, but not the meaning of their
// keys. Thread: any, blocking.
#pragma once

#include <string>

#include "base/result.h"
#include "control/config/section.h"

namespace pvrdma::control {

// Errors: the file cannot be read; it is not TOML (with the line); it has an unknown table.
Result<Document> read_toml(const std::string& path);

}  // namespace pvrdma::control
