// Making and tuning the sockets of connections between hosts. Thread: any; values only.
#pragma once

#include <array>
#include <cstdint>

#include "base/fd.h"
#include "base/ip_address.h"
#include "base/result.h"

namespace pvrdma::transport::tcp {

// A non-blocking socket that is connecting from `from` (any port) to `to`. Error: it could not even begin.
Result<Fd> begin_connect(const IpAddress& from, const IpAddress& to, std::uint16_t port);

// No delay of small messages, no megabytes queued in the kernel before them.
void tune(const Fd& socket);

// 16 bytes that nobody can guess.
std::array<std::uint8_t, 16> random_id();

}  // namespace pvrdma::transport::tcp
