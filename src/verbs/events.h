// EventSink: the events that an engine reports to its device. Thread: called on the engine's shard, from
// inside Engine calls.
#pragma once

#include <cstdint>
#include <string_view>

#include "abi/ring.h"
#include "verbs/ids.h"

namespace pvrdma::verbs {

class EventSink {
 public:
  virtual ~EventSink() = default;

  // An armed CQ fired. Called once per firing, not per CQE.
  virtual void completion_event(CqHandle cq) = 0;

  // `info` is a CQ, QP or SRQ handle or a port number, depending on the type (reference 7.8).
  virtual void async_event(abi::EventType type, std::uint32_t info) = 0;

  // The adapter moved a QP to ERR; `why` is one clause for the log ("remote access error on WQE …").
  virtual void qp_failed(Qpn qpn, std::string_view why) = 0;
};

}  // namespace pvrdma::verbs
