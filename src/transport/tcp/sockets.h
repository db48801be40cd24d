// Makes and tunes the sockets of connections between hosts. Thread: any; values only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace pvrdma::transport::tcp {

// Whether this kernel permits the algorithm `name`.
Result<void> check_congestion_control(const std::string& name);

// A tuned non-blocking socket that is connecting from `from` (any port) to `to`. Error: connecting could not
// begin.
Result<Fd> begin_connect(const IpAddress& from, const IpAddress& to, std::uint16_t port,
                         const std::string& congestion_control);

// Small messages are not delayed, and few bytes queue in the kernel before them. check_congestion_control()
// has accepted `congestion_control`.
void tune(const Fd& socket, const std::string& congestion_control);

// 16 unpredictable bytes.
std::array<std::uint8_t, 16> random_id();

}  // namespace pvrdma::transport::tcp
