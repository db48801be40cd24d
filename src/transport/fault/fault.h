// Fault: a decorator around another transport. It drops, duplicates, delays, reorders, damages and refuses
// requests, responses and datagrams, whatever the wrapped transport is. The same seed, settings and messages
// give the same faults.
//
// Damage has the effect that a real path's integrity check gives it. A message arrives only up to the damaged
// byte, as a shorter piece, and the rest is lost. A message without payload, or a datagram, is lost as a
// whole. Wrong bytes never arrive.
//
// Bounds. A wrapped path does not fit into a PathSlot beside its wrapper, so it lives in a pool. If the pool
// is empty, the path is the wrapped transport's own, without faults, until the fabric opens it again. Late
// and duplicated messages are copied. If no place for a copy is free, a late message is sent at once, before
// those that wait, and a duplicate is not made.
//
// A copy is delivered from on_time(), on an empty stack, over a path that is opened for this copy alone,
// because the original path may be closed by then. Before an engine of this host is destroyed, its owner must
// call forget().
//
// With all faults off, a message costs one virtual call and a few comparisons more. Only the constructor
// allocates, and the list of hosts that were refused room if it exceeds 64.
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
  std::size_t paths_max = 4096;    // open at the same time
  std::size_t messages_max = 128;  // waiting at the same time; each has address space for the largest piece
};

class Fault final : public Transport, public shard::Pollable {
 public:
  // `inner` and `inbound` are borrowed and outlive this. `inbound` is told when a refusal ends.
  Fault(Transport& inner, Inbound& inbound, const FaultOptions& options);
  ~Fault() override;  // drops waiting messages; paths that are still open must not be used any more
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;

  // Takes effect with the next message. Waiting messages keep their times.
  void configure(const FaultSettings& settings) { settings_ = settings; }
  const FaultSettings& settings() const { return settings_; }
  const FaultCounters& faults() const { return faults_; }
  // The number of messages that wait to be delivered.
  std::size_t waiting() const { return late_.size(); }

  // Closes every path of the wrapped transport. Afterwards no path may be opened. The destructor then only
  // frees memory and may run on any thread.
  void close_paths();

  // Delivers all waiting messages at once. On an empty stack.
  void deliver_all(Instant now);

  // Drops the messages that wait for an engine. Called before the engine is destroyed.
  void forget(const verbs::Engine& engine) { faults_.forgotten += late_.drop_for(engine); }

  // Transport. `traffic` counts each message of a wrapped path once, even if it is dropped. counters() counts
  // what the wrapped transport was given.
  PathKind kind() const override { return inner_.kind(); }
  const Counters& counters() const override { return inner_.counters(); }
  void join(verbs::Engine& engine) override { inner_.join(engine); }
  void take_back(const verbs::Engine& engine, std::span<const std::byte> memory) override {
    inner_.take_back(engine, memory);
  }
  void open(const Place& place, const verbs::Connection& connection, Traffic& traffic,
            verbs::PathSlot& slot) override;
  bool send_datagram(const Place& place, const verbs::Datagram& datagram, const guestmem::SpanList& payload,
                     Traffic& traffic, Instant now) override;
  bool is_up(HostId host) const override { return inner_.is_up(host); }
  void prepare(HostId host) override { inner_.prepare(host); }
  std::string trouble(HostId host) const override { return inner_.trouble(host); }
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
  // Applies the faults to a message; `send(message, payload)` passes it on. `ordered_after`: how long its
  // predecessors on the path wait.
  template <typename Message, typename Send>
  void carry(const Place& place, const verbs::Connection& connection, Instant& ordered_after,
             const Message& message, const guestmem::SpanList& payload, Instant now, Send send);
  void deliver(const fault::LateMessage& late, const guestmem::SpanList& payload, Instant now);

  Transport& inner_;
  Inbound& inbound_;
  FaultSettings settings_;
  FaultCounters faults_;
  fault::Dice dice_;
  Traffic unused_;  // for the wrapped paths; the message itself was counted in its path's `traffic`
  std::shared_ptr<Pool> pool_;  // shared with the paths, which may be closed after this is destroyed
  fault::LateMessages late_;
  Instant refuses_until_ = Instant::never();  // never: no refusal
  std::vector<HostId> refused_;               // hosts whose paths were refused room; each once
  std::vector<HostId> telling_;               // used by on_time() only; kept for its memory
};

}  // namespace pvrdma::transport
