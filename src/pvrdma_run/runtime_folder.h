// The folder of one user's own daemon and stand-ins: $XDG_RUNTIME_DIR/pvrdma, or /tmp/pvrdma-UID.
//
// It belongs to the user alone (mode 0700). Whoever starts something in it holds its lock. Thread: main().
#pragma once

#include <string>

#include "base/fd.h"
#include "base/result.h"

namespace pvrdma::run {

// The folder's path; it is made if it is missing. Errors: it belongs to someone else, or others may write to
// it.
Result<std::string> runtime_folder();
// Makes FOLDER/NAME with mode 0700, if it is missing. Errors: as above.
Result<std::string> make_folder(const std::string& path);
// Waits until nobody else starts something. The lock lasts as long as the descriptor.
Result<Fd> lock_folder(const std::string& folder);

}  // namespace pvrdma::run
