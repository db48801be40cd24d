// EventLines: takes the server-sent events of GET /v1/watch, in pieces cut anywhere, and makes of each a line
// of JSON: {"event":"stats","data":{...}}.
//
// Thread: one at a time.
#pragma once

#include <string>
#include <string_view>

#include "base/result.h"

namespace pvrdma::ctl {

class EventLines {
 public:
  // Returns the lines, each with its newline, of the events that end in this piece. Error: this is no stream
  // of events, or an event is longer than 16 MiB.
  Result<std::string> take(std::string_view piece);

 private:
  std::string rest_;  // the start of an event
};

}  // namespace pvrdma::ctl
