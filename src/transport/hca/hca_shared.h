// HcaShared: what the parts of one Hca share. During a send, nothing is destroyed and no Inbound is called: a
// pipe that breaks or comes up sets `attention`, and the Hca's next turn handles it.
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

// What this host needs to make its end of a pipe.
struct Station {
  std::shared_ptr<Nic> nic;
  std::uint32_t mtu = 0;  // of its port
  std::vector<verbs::Gid> gids;
  std::vector<HcaPeer> peers;
};

struct HcaShared {
  HcaShared(HcaServices& the_services, Inbound& the_inbound, const Clock& the_clock,
            const HcaTimes& the_times = {}, ShardNumber the_shard = {})
      : services(the_services), inbound(the_inbound), clock(the_clock), times(the_times), shard(the_shard) {}

  // Makes sure that on_time() of all parts is called at `at` or earlier. A deadline that moves later needs no
  // call.
  void check_at(Instant at) { next_check = std::min(next_check, at); }
  void count(Delivery delivery) {
    if (delivery == Delivery::kUnknownGid) ++errors.unknown_gids;
    if (delivery == Delivery::kForeignSource) ++errors.foreign_sources;
  }
  // Reserves room for `pipes` pipes in the lists below.
  void make_room(std::size_t pipes) {
    active.reserve(pipes);
    polled.reserve(pipes);
    unflushed.reserve(pipes);
  }

  HcaServices& services;
  Inbound& inbound;
  const Clock& clock;
  const HcaTimes times;
  const ShardNumber shard;
  std::shared_ptr<const Station> station;  // null: no device works
  Counters counters;
  HcaErrors errors;
  HcaBulk bulk;

  bool attention = false;  // a pipe broke, came up, or has room again
  bool in_batch = false;   // a pipe is delivering messages: what is sent meanwhile is batched
  Instant next_check = Instant::never();
  // Borrowed: each pipe is in each list at most once.
  std::vector<Pipe*> active;     // have completions, or messages that wait
  std::vector<Pipe*> polled;     // by the turn in progress
  std::vector<Pipe*> unflushed;  // have an open slot that is not posted
};

}  // namespace pvrdma::transport::hca
