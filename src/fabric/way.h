// Way: where messages to a GID go: a channel, and what kind of path it is part of. What a PeerRoute points
// to. Thread: shard-owned.
#pragma once

#include <memory>

#include "fabric/path.h"
#include "transport/transport.h"

namespace pvrdma::fabric {

struct Way {
  PathKind kind = PathKind::kNone;
  std::unique_ptr<transport::Channel> channel;  // may be kept, and is not used, while there is no path

  bool leads_somewhere() const { return kind != PathKind::kNone && channel != nullptr; }
};

}  // namespace pvrdma::fabric
