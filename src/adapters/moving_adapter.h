// What the shard that an adapter comes to makes it of, when it moves there from another shard of the host.
//
// Thread: values.
#pragma once

#include "adapters/kept_record.h"
#include "base/time.h"
#include "control/config/config.h"
#include "fabric/port.h"

namespace pvrdma::adapters {

struct MovingAdapter {
  control::AdapterConfig config;
  fabric::Port::Predecessor port;
  GivenBack given;  // as a daemon's next process gets it, with all objects
  bool link_is_up = true;
  Instant stopped_at;
};

}  // namespace pvrdma::adapters
