// ContextObserver: whoever has to know which doorbell pages belong to a context. Thread: shard-owned.
#pragma once

#include "verbs/engine.h"

namespace pvrdma::device {

class ContextObserver {
 public:
  virtual ~ContextObserver() = default;
  // Before the guest is told that the context is there.
  virtual void context_opened(verbs::UarIndex uar) = 0;
  // Nothing of the context is left.
  virtual void context_closed(verbs::UarIndex uar) = 0;
};

}  // namespace pvrdma::device
