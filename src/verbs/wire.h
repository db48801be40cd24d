// Wire: the way out of an engine. fabric/ implements it and chooses the paths; the engine never knows how a
// message travels.
//
// Thread: called on the engine's shard, from inside Engine calls.
#pragma once

#include <atomic>
#include <cstdint>
#include <optional>
#include <span>

#include "base/time.h"
#include "guestmem/address_space.h"
#include "guestmem/host_span.h"
#include "verbs/message.h"
#include "verbs/observer.h"
#include "verbs/path.h"

namespace pvrdma::verbs {

class Wire {
 public:
  // `generation` is borrowed and never 0. It changes after open_path() may give another result; other threads
  // may change it.
  explicit Wire(const std::atomic<std::uint64_t>& generation) : generation_(generation) {}
  virtual ~Wire() = default;

  // The connection's path, opened again if it may have changed. `connection()` returns the connection's ends.
  template <typename Ends>
  Path& path(PathSlot& slot, Ends connection) {
    // Loaded before the path is opened: a change meanwhile makes the next call open it again.
    if (const std::uint64_t now = generation_.load(std::memory_order_acquire); slot.generation() != now)
        [[unlikely]] {
      open_path(connection(), slot);
      slot.set_generation(now);
    }
    return *slot;
  }

  // Whether the slot's path is still the right one. Only path() may be used on one that is not: parts of it
  // may be gone.
  bool is_current(const PathSlot& slot) const { return slot.generation() == generation_; }

  // The path for an answer: the QP's own path, `usual`, or the one on which the request arrived.
  Path& answer_path(Path& usual) const { return answer_path_ == nullptr ? usual : *answer_path_; }

  // Like a path's send functions, for a message without a connection. Returns false if the way that it took
  // has no room for another one now: Engine::on_path_ready() tells when it has. One that is sent nevertheless
  // may be lost.
  virtual bool send_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) = 0;

  // Whether answers of `peer` may be late because its VM or this one is moving to another host or is paused
  // for it, or because its host's daemon restarts. A time limit then costs no retry.
  virtual bool spares_retries(const Gid& /*peer*/, Instant /*now*/) const { return false; }

  // To which place messages for `peer` go. nullopt: nobody here knows it as an adapter of the cluster.
  virtual std::optional<PeerPlace> place_of(const Gid& /*peer*/) const { return PeerPlace(0); }

  // When stop() returns, no path reads or writes memory of this VM for the connection any more; when
  // stop_all() returns, for any connection. Other connections between the same two VMs may have to repeat
  // requests. How long a call takes is bounded by this host's own hardware and does not depend on a peer.
  virtual void stop(const Connection& /*connection*/) {}
  virtual void stop_all() {}

  // The engine's turn is over: sends what is queued.
  virtual void flush(Instant now) = 0;

  // The observer of the engine's messages, borrowed; null if there is none.
  MessageObserver* observer() const { return observer_; }
  void observe(MessageObserver* observer) { observer_ = observer; }

 protected:
  // Borrowed until the next call; null: answers take the QP's own path.
  void set_answer_path(Path* path) { answer_path_ = path; }

 private:
  // Opens the path that the connection's messages take now. Without a route, that is a path that drops and
  // counts them.
  virtual void open_path(const Connection& connection, PathSlot& slot) = 0;

  const std::atomic<std::uint64_t>& generation_;
  MessageObserver* observer_ = nullptr;
  Path* answer_path_ = nullptr;
};

// Ensures that a GID belongs to one adapter.
class GidRegistry {
 public:
  virtual ~GidRegistry() = default;
  // A guest bound or unbound a GID on this adapter. bind_gid() returns false if another adapter of the
  // segment has it.
  virtual bool bind_gid(const Gid& gid) = 0;
  virtual void unbind_gid(const Gid& gid) = 0;
};

// An adapter's place on its switch, as its engine sees it.
class SwitchPort : public Wire, public GidRegistry, public guestmem::MemoryWatcher {
 public:
  using Wire::Wire;
  // While the port is stopped, the engine gets no messages and its messages do not leave, so its peers repeat
  // theirs. Its GIDs stay bound, and its guest is told nothing. When the port works again, the peers on this
  // host repeat at once, and the call returns how many QPs were searched for that; otherwise it returns 0.
  // Call it on an empty stack.
  virtual std::uint64_t set_stopped(bool stopped) = 0;

  // Called before a part of the engine's memory is unmapped. When it returns, no RDMA device of this host has
  // access to that part any more.
  void on_unmapping(std::span<const std::byte> /*memory*/) override {}
};

}  // namespace pvrdma::verbs
