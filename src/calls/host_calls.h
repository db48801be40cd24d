// HostCalls: calls from this host's daemon to the daemons of other hosts.
//
// Thread: any but the shard's.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "base/ip_address.h"
#include "base/result.h"
#include "calls/conversation.h"
#include "tls/context.h"

namespace pvrdma::calls {

// The addresses between which this host calls another one.
struct Route {
  IpAddress from;
  IpAddress to;
};
// Nothing: one of the two hosts has no address for calls. Thread: any.
using FindRoute = std::function<std::optional<Route>(const std::string& host)>;

class HostCalls {
 public:
  // `host` is this host's name. If `tls` is null, calls are not encrypted; it is borrowed and outlives this.
  // `congestion_control` is a name
  // that the kernel knows.
  HostCalls(std::string host, FindRoute find_route, const tls::Context* tls, std::string congestion_control)
      : host_(std::move(host)),
        find_route_(std::move(find_route)),
        tls_(tls),
        congestion_control_(std::move(congestion_control)) {}

  // Blocks for transport::tcp::kHandshakeTime at most. A host admits only a few new connections of one
  // address in a second, and this host's lanes and other calls count, too: a host that has no room is tried
  // again twice. The error (kUnavailable) is one sentence that names the host. Its code is EHOSTUNREACH if
  // there is no route, or that of Call::dial().
  Result<std::unique_ptr<Conversation>> call(const std::string& host) const;

 private:
  const std::string host_;
  const FindRoute find_route_;
  const tls::Context* const tls_;
  const std::string congestion_control_;
};

}  // namespace pvrdma::calls
