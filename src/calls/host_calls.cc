#include "calls/host_calls.h"

#include <cerrno>
#include <fmt/core.h>
#include <utility>

#include "transport/tcp/call.h"

namespace pvrdma::calls {

Result<std::unique_ptr<Conversation>> HostCalls::call(const std::string& host) const {
  const auto route = find_route_(host);
  if (!route)
    return fail(ErrorKind::kUnavailable, EHOSTUNREACH,
                fmt::format("host {} cannot be called: no vmknic is tagged there or here", host));
  auto made = transport::tcp::Call::dial(host_, route->from, {{}, host, route->to, transport::kTcpPort},
                                         congestion_control_, tls_);
  if (!made) return Failure(std::move(made).error().as(ErrorKind::kUnavailable));
  return std::make_unique<Conversation>(*std::move(made), host);
}

}  // namespace pvrdma::calls
