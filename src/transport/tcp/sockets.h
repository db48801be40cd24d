// Making and tuning the sockets of connections between hosts. Thread: any; values only.
#pragma once

#include <array>
#include <cstdint>
#include <string>

#include "base/fd.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace pvrdma::transport::tcp {

// Whether this kernel lets us choose the algorithm `name`.
Result<void> check_congestion_control(const std::string& name);

// A non-blocking socket that is connecting from `from` (any port) to `to`, tuned. Error: it could not even
// begin.
Result<Fd> begin_connect(const IpAddress& from, const IpAddress& to, std::uint16_t port,
                         const std::string& congestion_control);

// No delay of small messages, no megabytes queued in the kernel before them, and a congestion control that
// check_congestion_control() has found to be known.
void tune(const Fd& socket, const std::string& congestion_control);

// 16 bytes that nobody can guess.
std::array<std::uint8_t, 16> random_id();

}  // namespace pvrdma::transport::tcp
