// Makes and tunes the sockets of connections between hosts. Thread: any; values only.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>

#include "base/fd.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace pvrdma::transport::tcp {

inline constexpr const char* kPreferredCongestionControl = "cubic";

struct CongestionControl {
  std::string name;     // the kernel's; this process may use it
  std::string warning;  // why it is not `preferred`; otherwise empty
};

// The algorithm of a host whose configuration has `wanted`. Without `wanted` it is `preferred`, or the
// kernel's default if this process may not use that: an ordinary user may use only those of
// net.ipv4.tcp_allowed_congestion_control. The error names the key, the value and the way out.
Result<CongestionControl> choose_congestion_control(const std::optional<std::string>& wanted,
                                                    const char* preferred = kPreferredCongestionControl);

// A tuned non-blocking socket that is connecting from `from` (any port) to `to`. Error: connecting could not
// begin.
Result<Fd> begin_connect(const IpAddress& from, const IpAddress& to, std::uint16_t port,
                         const std::string& congestion_control);

// Small messages are not delayed, and few bytes queue in the kernel before them. choose_congestion_control()
// has returned `congestion_control`.
void tune(const Fd& socket, const std::string& congestion_control);

// 16 unpredictable bytes.
std::array<std::uint8_t, 16> random_id();

}  // namespace pvrdma::transport::tcp
