// Context: what the parts of one Hca share. As in tcp/context.h: nothing is destroyed and no Inbound is told
// anything in the middle of a send; whoever breaks or comes up says so here, and Hca's next turn deals with
// it.
//
// Thread: shard-owned.
#pragma once

#include <algorithm>
#include <memory>
#include <vector>

#include "base/time.h"
#include "transport/hca/guest_memory.h"
#include "transport/hca/hca.h"
#include "transport/hca/workshop.h"
#include "transport/transport.h"

namespace pvrdma::transport::hca {

class Pipe;

// What the Hca does for its pipes.
class Parts : public Workshop {
 public:
  // The engine's memory, which the device knows or will; null: no device is open. May throw bad_alloc.
  virtual std::shared_ptr<GuestMemory> memory_of(const verbs::Engine& engine) = 0;
  // The device does not do what it must: it is opened anew.
  virtual void give_up_device() = 0;
};

struct Context {
  Context(Parts& the_parts, Inbound& the_inbound, const Clock& the_clock, const HcaTimes& the_times = {})
      : parts(the_parts), inbound(the_inbound), clock(the_clock), times(the_times) {}

  // on_time() of everything is due no later than `at`. Deadlines that move back are found out there.
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

  Parts& parts;
  Inbound& inbound;
  const Clock& clock;
  const HcaTimes times;
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
