// The file of "apply": the edits of a batch (POST /v1/batch). Thread: any thread; blocks on the file.
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::ctl {

// Returns the request's body. Errors: the file cannot be read; it is longer than a request may be; it is not
// a JSON object. The daemon checks the rest.
Result<std::string> read_edits(const std::string& path, bool dry_run);

}  // namespace pvrdma::ctl
