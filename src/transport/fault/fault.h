// Fault: a transport around another one, which drops, doubles, delays, reorders, damages and refuses:
// requests, responses and datagrams alike, whatever the transport within. The same seed, settings and
// messages give the same faults.
//
// Damage is what a real path's integrity check makes of it: a message arrives up to the damaged byte, as a
// shorter piece, and its rest is lost; one without payload, and a datagram, is lost. Never are there wrong
// bytes.
//
// Bounds. A wrapped path does not fit beside its wrapper into a PathSlot: it lies in a pool. When the pool is
// empty, the path is the wrapped transport's own, without faults; so it stays until the fabric opens it anew.
// Late and doubled messages are copied: when no place for a copy is left, a late one passes on at once,
// before those that wait, and a copy is not made.
//
// A copy is delivered from on_time(), on an empty stack, over a path opened for it alone: the one it was sent
// on may be gone. An engine of this host that goes away is to be told to forget().
//
// With all faults off a message costs one virtual call and a few compares more. Nothing allocates but the
// constructor, and the list of hosts that were refused room when there are more than 64 of them at once.
//
// Thread: shard-owned; a Pollable for the shard's loop.
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "shard/loop.h"
#include "transport/fault/late_messages.h"
#include "transport/fault/settings.h"
#include "transport/transport.h"

namespace pvrdma::transport {

struct FaultOptions {
  std::uint64_t seed = 1;
  std::size_t paths_max = 4096;    // open at a time
  std::size_t messages_max = 128;  // waiting at a time; each has address space for the largest piece
};

class Fault final : public Transport, public shard::Pollable {
 public:
  // `inner` and `inbound` are borrowed and outlive this. `inbound` is told when there is room again.
  Fault(Transport& inner, Inbound& inbound, const FaultOptions& options);
  ~Fault() override;  // what waits is lost; paths that are still open are not used any more
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

  // From the next message on. What waits keeps its time.
  void configure(const FaultSettings& settings) { settings_ = settings; }
  const FaultSettings& settings() const { return settings_; }
  const FaultCounters& faults() const { return faults_; }
  // Messages that wait for their time.
  std::size_t waiting() const { return late_.size(); }

  // Nothing leads to the wrapped transport afterwards, and no path may be opened any more. The destructor
  // then only gives back memory, on any thread.
  void close_paths();

  // Delivers what waits, before its time. On an empty stack.
  void deliver_all(Instant now);

  // Drops what waits for an engine. Before it goes away.
  void forget(const verbs::Engine& engine) { faults_.forgotten += late_.drop_for(engine); }

  // Transport. `traffic` counts each message of a wrapped path once, whatever becomes of it; counters() what
  // the wrapped transport got.
  PathKind kind() const override { return inner_.kind(); }
  const Counters& counters() const override { return inner_.counters(); }
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  void send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override { return inner_.is_up(host); }
  void flush(Instant now) override { inner_.flush(now); }

  // Pollable.
  bool run(Instant /*now*/) override { return false; }
  void on_time(Instant now) override;
  Instant next_deadline() const override { return std::min(late_.next_due(), refuses_until_); }
  bool polls() const override { return false; }
  std::string what() const override { return "the fault decorator"; }

 private:
  class FaultPath;
  struct Wrapped;
  class Pool;

  std::uint32_t room(Wrapped& wrapped, std::uint32_t wanted, Instant now);
  // `send(message, payload)` passes it on. `ordered_after`: until when its predecessors on the path wait.
  template <typename Message, typename Send>
  void carry(const Place& place, const verbs::Connection& connection, Instant& ordered_after,
             const Message& message, const guestmem::SpanList& payload, Instant now, Send send);
  void deliver(const fault::LateMessage& late, const guestmem::SpanList& payload, Instant now);

  Transport& inner_;
  Inbound& inbound_;
  FaultSettings settings_;
  FaultCounters faults_;
  fault::Dice dice_;
  Traffic unused_;  // of the wrapped paths: each message is counted here, before its fate is known
  std::shared_ptr<Pool> pool_;  // shared with the paths: they may be closed after this is gone
  fault::LateMessages late_;
  Instant refuses_until_ = Instant::never();  // never: it does not
  std::vector<HostId> refused_;               // paths to them were; each once
  std::vector<HostId> telling_;               // of on_time(), kept for its memory
};

}  // namespace pvrdma::transport
