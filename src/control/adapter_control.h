// AdapterControl: what the control plane may change about running adapters. Thread: any thread but the
// shard's.
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::control {

enum class Link : bool { kDown, kUp };

class AdapterControl {
 public:
  virtual ~AdapterControl() = default;
  // Takes the link between adapter and switch down or up; the guest sees PORT_ERR or PORT_ACTIVE. Blocks for
  // a bounded time. Errors: ENOENT, no such adapter; otherwise the shard is stopping or did not answer in
  // time.
  virtual Result<void> set_link(const std::string& adapter, Link link) = 0;
};

}  // namespace pvrdma::control
