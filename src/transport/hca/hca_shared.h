// HcaShared: what the parts of one Hca share. Nothing is destroyed, and no Inbound is called, in the middle
// of a send: a pipe that breaks or comes up sets `attention`, and the Hca's next turn deals with it.
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/time.h"
#include "transport/hca/hca.h"
#include "transport/hca/hca_services.h"
#include "transport/hca/nic.h"
#include "transport/transport.h"

namespace pvrdma::transport::hca {

class Pipe;

// This host's end of the pipes that are to be made.
struct Station {
  std::shared_ptr<Nic> nic;
  std::uint32_t mtu = 0;  // of its port
  std::vector<verbs::Gid> gids;
  std::vector<HcaPeer> peers;
};

struct HcaShared {
  HcaShared(HcaServices& the_services, Inbound& the_inbound, const Clock& the_clock,
            const HcaTimes& the_times = {})
      : services(the_services), inbound(the_inbound), clock(the_clock), times(the_times) {}

  // Makes on_time() of all parts due no later than `at`. on_time() itself notices deadlines that have moved
  // back.
  void check_at(Instant at) { next_check = std::min(next_check, at); }
  void count(Delivery delivery) {
    if (delivery == Delivery::kUnknownGid) ++errors.unknown_gids;
    if (delivery == Delivery::kForeignSource) ++errors.foreign_sources;
  }
  // Lists of pipes below have room for so many.
  void make_room(std::size_t pipes) {
    active.reserve(pipes);
    polled.reserve(pipes);
    unflushed.reserve(pipes);
  }

  HcaServices& services;
  Inbound& inbound;
  const Clock& clock;
  const HcaTimes times;
  std::shared_ptr<const Station> station;  // null: no device works
  Counters counters;
  HcaErrors errors;
  HcaBulk bulk;

  bool attention = false;  // something broke, has room again or came up
  bool in_batch = false;   // a pipe hands over what it received: what is sent meanwhile is gathered
  Instant next_check = Instant::never();
  // Borrowed: each pipe is in each at most once.
  std::vector<Pipe*> active;     // have completions, or messages that wait
  std::vector<Pipe*> polled;     // of a turn
  std::vector<Pipe*> unflushed;  // have a slot that is not posted
};

}  // namespace pvrdma::transport::hca
