// HostCalls: connections of this host's daemon to those of others.
//
// Thread: any but the shard's.
#pragma once

#include <memory>
#include <string>
#include <utility>

#include "base/byte_channel.h"
#include "base/result.h"
#include "control/plane/plane.h"
#include "tls/context.h"

namespace pvrdma::daemon {

class HostCalls {
 public:
  // `plane` is borrowed. `tls` null: calls are plain. `congestion_control`: as the kernel names it.
  HostCalls(control::Plane& plane, std::unique_ptr<tls::Context> tls, std::string congestion_control)
      : plane_(plane), tls_(std::move(tls)), congestion_control_(std::move(congestion_control)) {}

  // Blocks for a bounded time. Errors: one sentence with the host.
  Result<std::unique_ptr<ByteChannel>> call(const std::string& host) const;

 private:
  control::Plane& plane_;
  std::unique_ptr<tls::Context> tls_;
  std::string congestion_control_;
};

}  // namespace pvrdma::daemon
