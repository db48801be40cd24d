#include "calls/host_calls.h"

#include <array>
#include <cerrno>
#include <chrono>
#include <fmt/core.h>
#include <thread>
#include <utility>

#include "transport/tcp/call.h"
#include "transport/tcp/frame_socket.h"

namespace pvrdma::calls {
namespace {

// Together the second in which a host's room for new connections comes back (transport/tcp/entry_shares.h).
constexpr std::array kPauses{std::chrono::milliseconds(250), std::chrono::milliseconds(750)};

}  // namespace

Result<std::unique_ptr<Conversation>> HostCalls::call(const std::string& host) const {
  const auto route = find_route_(host);
  if (!route)
    return fail(ErrorKind::kUnavailable, EHOSTUNREACH,
                fmt::format("host {} cannot be called: no vmknic is tagged there or here", host));
  const Instant until = Instant::now() + transport::tcp::kHandshakeTime;
  const auto dial = [&] {
    return transport::tcp::Call::dial(host_, route->from, {{}, host, route->to, transport::kTcpPort},
                                      congestion_control_, tls_, until);
  };
  auto made = dial();
  for (const auto pause : kPauses) {
    if (made || made.error().code != EAGAIN) break;
    std::this_thread::sleep_for(pause);
    made = dial();
  }
  if (!made) return Failure(std::move(made).error().as(ErrorKind::kUnavailable));
  return std::make_unique<Conversation>(*std::move(made), host);
}

}  // namespace pvrdma::calls
