// The forms of "events --follow". Thread: values.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

// The command that follows: it asks for the stream of GET /v1/watch.
Command followed(Command command);

// The events in lines of EventLines, each as a line of text, or as JSON as the API describes an event. Error:
// the daemon is another version.
Result<std::string> followed_events(std::string_view lines, bool as_json);

}  // namespace pvrdma::ctl
