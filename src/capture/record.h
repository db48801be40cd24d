// Record: one message of a captured adapter, as the shard saw it; its payload's bytes stand behind it in the
// ring. Thread: values.
#pragma once

#include <algorithm>
#include <cstdint>
#include <type_traits>

#include "abi/attributes.h"
#include "base/time.h"
#include "transport/transport.h"
#include "verbs/message.h"
#include "verbs/observer.h"

namespace pvrdma::capture {

enum class Kind : std::uint8_t { kRequest, kResponse, kDatagram };

struct Record {
  Kind kind{};
  verbs::Direction direction{};
  transport::PathKind path{};
  abi::Mtu mtu{};
  Instant time;
  std::uint32_t kept_bytes = 0;    // of payload, behind the record
  std::uint32_t stride_bytes = 0;  // kept of each packet's payload at most; 0: no payload came
  verbs::Request request;          // kRequest
  verbs::Response response;        // kResponse
  verbs::Answered answered;        // kResponse
  verbs::Datagram datagram;        // kDatagram

  const verbs::Endpoint& from() const {
    return kind == Kind::kRequest ? request.from : kind == Kind::kResponse ? response.from : datagram.from;
  }
  const verbs::Endpoint& to() const {
    return kind == Kind::kRequest ? request.to : kind == Kind::kResponse ? response.to : datagram.to;
  }
  const verbs::Endpoint& peer() const { return direction == verbs::Direction::kOutbound ? to() : from(); }

  // Of payload that travels with it, and where in its message that begins.
  std::uint32_t bytes() const {
    switch (kind) {
      case Kind::kRequest:
        return request.is_read_or_atomic() ? 0 : request.bytes;
      case Kind::kResponse:
        return response.bytes;
      case Kind::kDatagram:
        break;
    }
    return datagram.bytes;
  }
  std::uint32_t offset() const {
    return kind == Kind::kRequest ? request.offset : kind == Kind::kResponse ? response.offset : 0;
  }
};
static_assert(std::is_trivially_copyable_v<Record>);

// Calls `visit(begin, bytes)` for the payload of each packet of a piece that begins at `offset` of its
// message: cut where packets end. At least once.
template <typename Visit>
void for_each_packet(std::uint32_t offset, std::uint32_t bytes, std::uint32_t mtu_bytes, Visit visit) {
  std::uint32_t done = 0;
  do {
    const std::uint32_t part = std::min(bytes - done, mtu_bytes - (offset + done) % mtu_bytes);
    visit(done, part);
    done += part;
  } while (done < bytes);
}

}  // namespace pvrdma::capture
