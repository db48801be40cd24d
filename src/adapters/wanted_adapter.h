// WantedAdapter: the adapter of a VM that is placed on this host, or that is moving to it. Thread: values.
#pragma once

#include <cstdint>
#include <string>

#include "control/config/config.h"
#include "transport/transport.h"

namespace pvrdma::adapters {

struct WantedAdapter {
  control::AdapterConfig config;  // its name is the VM's
  transport::SegmentId segment;   // SegmentId{}: its switch or port group is gone; `refusal` is then set
  std::string refusal;            // the rule that forbids to power on the VM; empty: no rule does
  std::uint64_t memory_mib = 0;   // of the VM; 0: unknown
  std::string trouble;            // why this host cannot serve it; empty: it can
  bool is_arriving = false;       // the VM belongs to another host and is moving to this one
  friend bool operator==(const WantedAdapter&, const WantedAdapter&) = default;
};

}  // namespace pvrdma::adapters
