#include "pvrdmad/host_calls.h"

#include <cerrno>
#include <fmt/core.h>

#include "transport/tcp/call.h"

namespace pvrdma::daemon {

Result<std::unique_ptr<ByteChannel>> HostCalls::call(const std::string& host) const {
  const auto inventory = plane_.inventory();
  const auto self = inventory->hosts.find(plane_.host());
  const auto other = inventory->hosts.find(host);
  const bool known = self != inventory->hosts.end() && other != inventory->hosts.end();
  const IpAddress* const from = known ? self->second.tagged_address() : nullptr;
  const IpAddress* const to = known ? other->second.tagged_address() : nullptr;
  if (from == nullptr || to == nullptr)
    return fail(EHOSTUNREACH,
                fmt::format("host {} cannot be called: no vmknic is tagged there or here", host));
  auto made = transport::tcp::Call::dial(plane_.host(), *from, {{}, host, *to, transport::kTcpPort},
                                         congestion_control_, tls_.get());
  if (!made) return Failure(std::move(made).error());
  return *std::move(made);
}

}  // namespace pvrdma::daemon
