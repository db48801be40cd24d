// A checkpoint's file: what the VM's QEMU wrote, and behind it the adapter's state and how long that is. QEMU
// reads its part from the begin and looks no further.
//
// Thread: any; blocks.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pvrdma::ctl {

// Adds the state to the file that QEMU made. When it returns all of the file is on the disk, its name
// included. Errors: the file is not there, or cannot be written.
Result<void> append_state(const std::string& file, std::string_view state);

// Takes it away again: the VM goes on, so the file is no checkpoint. Errors: as read_state()'s; the file
// cannot be written.
Result<void> drop_state(const std::string& file);

// Errors: the file cannot be read, or has no state at its end.
Result<std::string> read_state(const std::string& file);

}  // namespace pvrdma::ctl
