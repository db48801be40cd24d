// follow_motion(): runs "vm migrate" from its beginning to its end. If libvirt leads, virsh migrates the
// domain meanwhile.
//
// Thread: one; blocks.
#pragma once

#include <functional>
#include <string>

#include "base/result.h"
#include "pvrdmactl/grammar.h"
#include "pvrdmactl/request.h"

namespace pvrdma::ctl {

// The progress of a motion or checkpoint: a line for the terminal.
std::string progress_of(const Json& state);

// Returns the daemon's last answer. `show` is called with each answer while the motion runs. The daemon
// carries out the motion, so it goes on even if the caller stops following it.
Result<std::string> follow_motion(const SendRequest& send, const Command& command, const Values& values,
                                  const std::function<void(const Json& motion)>& show);

}  // namespace pvrdma::ctl
