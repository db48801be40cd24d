// TcpShared: what the parts of one Tcp share.
//
// In the middle of a send, nothing is destroyed and no Inbound is called. A part that breaks, drains or comes
// up records that here, and Tcp's next turn handles it.
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <fmt/core.h>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "base/log.h"
#include "base/time.h"
#include "shard/loop.h"
#include "tls/context.h"
#include "transport/tcp/tcp.h"
#include "transport/transport.h"

namespace pvrdma::transport::tcp {

class FrameSocket;

struct TcpShared {
  TcpShared(TcpOptions the_options, shard::Loop& the_loop, const Clock& the_clock, Inbound& the_inbound)
      : options(std::move(the_options)),
        log_name(options.shard == ShardNumber{} ? "tcp"
                                                : fmt::format("tcp of shard {}", options.shard.value)),
        loop(the_loop),
        clock(the_clock),
        inbound(the_inbound) {}

  // Makes on_time() of all parts due no later than `at`. on_time() itself notices deadlines that have moved
  // back.
  void check_at(Instant at) { next_check = std::min(next_check, at); }

  bool is_allowed(const IpAddress& address) const {
    return settings.allow_all ||
           std::any_of(settings.allowed.begin(), settings.allowed.end(),
                       [&](const IpNetwork& network) { return network.contains(address); });
  }

  bool is_peer(const IpAddress& address) const {
    return std::any_of(settings.peers.begin(), settings.peers.end(),
                       [&](const TcpPeer& peer) { return peer.address == address; });
  }

  const TcpOptions options;
  const std::string log_name;      // what log lines begin with
  std::string congestion_control;  // set once, before the first connection
  shard::Loop& loop;
  const Clock& clock;
  Inbound& inbound;
  TcpSettings settings;
  Counters counters;
  TcpErrors errors;

  bool attention = false;  // something broke, drained or came up
  bool in_batch = false;   // a connection is delivering its input; output is gathered meanwhile
  Instant next_check = Instant::never();
  std::vector<FrameSocket*> unflushed;   // borrowed; hold gathered output or the rest of a packet
  std::vector<FrameSocket*> unfinished;  // borrowed; have input left, but stopped reading
  std::vector<FrameSocket*> unsecured;   // borrowed; their TLS handshake can take a step; oldest first
};

}  // namespace pvrdma::transport::tcp
