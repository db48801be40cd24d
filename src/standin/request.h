// Request: one datagram of a program's library (preload/wire.h), checked as far as its framing goes.
//
// Thread: pure functions.
#pragma once

#include <cstddef>
#include <optional>
#include <span>

#include "preload/wire.h"

namespace pvrdma::standin {

struct Request {
  pvrdma_wire_request header;
  std::span<const std::byte> command;     // without the padding
  std::span<const pvrdma_wire_run> runs;  // each of at least one page
};

// The largest datagram that parse_request() takes, in bytes.
inline constexpr std::size_t kRequestBytesMax = sizeof(pvrdma_wire_request) + PVRDMA_WIRE_MAX_COMMAND_BYTES +
                                                std::size_t{PVRDMA_WIRE_MAX_RUNS} * sizeof(pvrdma_wire_run);

// The result borrows `datagram`, which is aligned to 8 bytes. Nothing if its lengths contradict each other or
// exceed the limits: the connection is then of no more use.
std::optional<Request> parse_request(std::span<const std::byte> datagram);

}  // namespace pvrdma::standin
