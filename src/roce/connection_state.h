// ConnectionState: what a path over RoCE keeps for one RC connection. It is soft state: it may be lost at any
// moment, at the cost of a repetition. Pure. Thread: shard-owned.
#pragma once

#include "roce/answerer.h"
#include "roce/ends.h"
#include "roce/request_packet.h"
#include "roce/sender.h"

namespace pvrdma::roce {

struct ConnectionState {
  ConnectionState(verbs::Engine& engine, const verbs::Connection& connection, const Mac& mac,
                  Counters& counters)
      : ends(engine, connection, mac, counters) {}

  // A packet of the peer has arrived. `marked`: the network has marked it (ECN).
  void on_packet(const Packet& packet, bool marked, Instant now) {
    if (marked) answerer.on_marked(ends, now);
    if (packet.opcode == Opcode::kCongestionNotification) {
      sender.on_congestion(ends);
    } else if (is_request(packet.opcode)) {
      answerer.on_request(ends, packet, now);
    } else {
      sender.on_answer(ends, packet, now);
    }
  }

  Ends ends;
  Sender sender;
  Answerer answerer;
};

}  // namespace pvrdma::roce
