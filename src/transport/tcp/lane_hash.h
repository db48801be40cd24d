// Which lane carries a message. All messages of a connection (QP pair) use one lane, and both hosts must
// agree on it. Pure function; wire contract, because peers compute it, too.
#pragma once

#include <cstdint>

#include "verbs/ids.h"

namespace pvrdma::transport::tcp {

// `requester` is the end that sent the request; for a response it is `to`. The lane is the hash modulo the
// number of lanes.
inline std::uint64_t lane_hash(const verbs::Endpoint& requester, const verbs::Endpoint& responder) {
  std::uint64_t state = std::uint64_t{requester.qpn.value} << 32 | responder.qpn.value;
  const auto mix = [&state](const std::uint8_t* bytes) {
    std::uint64_t word = 0;
    for (int i = 0; i < 8; ++i) word = word << 8 | bytes[i];
    state = (state ^ word) * 0x9e37'79b9'7f4a'7c15ULL;
    state ^= state >> 32;
  };
  for (const verbs::Gid* gid : {&requester.gid, &responder.gid}) {
    mix(gid->bytes.data());
    mix(gid->bytes.data() + 8);
  }
  return state;
}

}  // namespace pvrdma::transport::tcp
