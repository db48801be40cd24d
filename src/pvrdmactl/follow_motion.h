// follow_motion(): "vm migrate", from its beginning to its end. Where libvirt leads, virsh migrates the
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

// How it asks the daemon: api_client.h's send().
using SendRequest = std::function<Result<std::string>(const Request& request)>;

// How far a motion or a checkpoint is: a line for the terminal.
std::string progress_of(const Json& state);

// The daemon's last answer. `show` is called with each one of a motion that is under way. The VM's way is the
// daemon's business: who stops looking changes nothing.
Result<std::string> follow_motion(const SendRequest& send, const Command& command, const Values& values,
                                  const std::function<void(const Json& motion)>& show);

}  // namespace pvrdma::ctl
