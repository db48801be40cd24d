// Record: one message of a captured adapter, as the shard saw it. In the ring, the payload's bytes follow the
// record. Thread: values.
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
  std::uint32_t kept_bytes = 0;    // of payload, after the record
  std::uint32_t stride_bytes = 0;  // the most that is kept of each packet's payload; 0: no payload came
  verbs::Request request;          // for kRequest
  verbs::Response response;        // for kResponse
  verbs::Answered answered;        // for kResponse
  verbs::Datagram datagram;        // for kDatagram

  const verbs::Endpoint& from() const {
    return kind == Kind::kRequest ? request.from : kind == Kind::kResponse ? response.from : datagram.from;
  }
  const verbs::Endpoint& to() const {
    return kind == Kind::kRequest ? request.to : kind == Kind::kResponse ? response.to : datagram.to;
  }
  const verbs::Endpoint& peer() const { return direction == verbs::Direction::kOutbound ? to() : from(); }

  // The length of the payload that travels with the message, and the payload's offset in it.
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

// Cuts a piece at packet boundaries. Calls `visit(begin, bytes)` for the payload of each packet, at least
// once. `offset` is the offset of the piece in its message.
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
