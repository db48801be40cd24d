// The links between adapters and their switches, and the seam through which the API changes them. Thread: any
// but the shard's.
#pragma once

#include <string>

#include "base/result.h"

namespace pvrdma::adapters {

enum class Link : bool { kDown, kUp };

class Links {
 public:
  virtual ~Links() = default;
  // Takes an adapter's link down or up; the guest sees PORT_ERR or PORT_ACTIVE. Blocks for a bounded time.
  // Errors: kNotFound, no such adapter; kUnavailable, the shard is stopping or does not answer in time.
  virtual Result<void> set(const std::string& adapter, Link link) = 0;
};

}  // namespace pvrdma::adapters
