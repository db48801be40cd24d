// What the shard that an adapter comes to makes it of, when it moves there from another shard of the host.
//
// Thread: values.
#pragma once

#include <optional>
#include <string>
#include <variant>

#include "adapters/kept_record.h"
#include "adapters/wanted_adapter.h"
#include "base/time.h"
#include "control/config/config.h"
#include "fabric/port.h"

namespace pvrdma::adapters {

// The adapter of one of the cluster's VMs.
struct MovingVm {
  WantedAdapter made;                   // what the adapter was made for
  bool is_as_before = false;            // as AdapterSet::Provided
  std::optional<WantedAdapter> wanted;  // empty: the VM is not wanted here; its VMM has yet to leave
};

struct MovingAdapter {
  std::string name;
  std::variant<control::AdapterConfig, MovingVm> origin;  // of the configuration, or of the cluster
  fabric::Port::Predecessor port;
  GivenBack given;      // as a daemon's next process gets it, with all objects
  std::string refusal;  // why no client is let in; empty: one is
  bool link_is_up = true;
  Instant stopped_at;
};

}  // namespace pvrdma::adapters
