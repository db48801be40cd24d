// The state of the transport tcp, for people. Thread: values.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "transport/transport.h"

namespace pvrdma::transport {

// A shard of another host, as this transport sees it.
struct TcpPeerState {
  std::string name;               // the host's
  std::uint32_t lanes_up = 0;     // dialled lanes that are up
  std::uint32_t sessions_up = 0;  // lanes accepted from it that are up
  std::uint64_t reconnects = 0;
  std::string trouble;  // why a lane is down; empty if all are up
  ShardNumber shard{};
};

struct TcpState {
  bool listening = false;
  std::string trouble;  // why it does not listen although it should; otherwise empty
  std::vector<TcpPeerState> peers;
};

}  // namespace pvrdma::transport
