// A checkpoint's file: QEMU's migration stream, followed by the adapter's state, its length and a checksum of
// all that. QEMU reads its part from the start and ignores the rest. Its memory and devices have no checksum
// of their own.
//
// Thread: any; blocks.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"

namespace pvrdma::ctl {

// Reads QEMU's file, and appends the state and the checksum. When it returns, the whole file and its name are
// on the disk. Errors: the file does not exist or cannot be written; ETIMEDOUT: that took longer than
// `patience`, after which the VM goes on. Then it is no checkpoint.
Result<void> append_state(const std::string& file, std::string_view state, Duration patience);

// Removes the state again: the VM goes on, so the file is not a checkpoint. Errors: those of read_state();
// the file cannot be written.
Result<void> drop_state(const std::string& file);

// Whether the file still has the bytes that it was written with. Reads all of it. Errors: those of
// read_state(); EBADMSG: it is damaged.
Result<void> verify(const std::string& file);

// The state, not verified. Errors: the file cannot be read, or does not end with a state.
Result<std::string> read_state(const std::string& file);

}  // namespace pvrdma::ctl
