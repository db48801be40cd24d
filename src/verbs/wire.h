// Wire: how an engine reaches the world. Implemented by fabric/ (which picks the paths); the engine never
// knows how a message travels.
//
// Thread: called on the engine's shard, from inside Engine calls.
#pragma once

#include <cstdint>
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
  // `generation` is borrowed; not 0, and changed whenever open_path() may have another answer.
  explicit Wire(const std::uint64_t& generation) : generation_(generation) {}
  virtual ~Wire() = default;

  // The connection's path, opened anew when it may be another one by now. `connection()` tells its ends.
  template <typename Ends>
  Path& path(PathSlot& slot, Ends connection) {
    if (slot.generation() != generation_) [[unlikely]] {
      open_path(connection(), slot);
      slot.set_generation(generation_);
    }
    return *slot;
  }

  // By which an answer goes: by the QP's own path, `usual`, or by the way that has brought what is answered.
  Path& answer_path(Path& usual) const { return answer_path_ == nullptr ? usual : *answer_path_; }

  // Like a path's sends; there is no connection to own one.
  virtual void send_datagram(const Datagram& datagram, const guestmem::SpanList& payload, Instant now) = 0;

  // Whether answers of `peer` may be late for a reason that is nobody's fault, as its VM or this one is on
  // its way to another host, or stands meanwhile: then a time limit costs no retry.
  virtual bool spares_retries(const Gid& /*peer*/, Instant /*now*/) const { return false; }

  // When they return, no path reads or writes memory of this VM on the connection's behalf any more, or on
  // any one's. Others between the same two VMs may have to repeat something. Bounded by what this host has.
  virtual void stop(const Connection& /*connection*/) {}
  virtual void stop_all() {}

  // The engine's turn is over: what it sent goes out now.
  virtual void flush(Instant now) = 0;

  // Who is told of the engine's messages, borrowed; null: nobody.
  MessageObserver* observer() const { return observer_; }
  void observe(MessageObserver* observer) { observer_ = observer; }

 protected:
  // Borrowed until the next call; null: answers go as usual.
  void set_answer_path(Path* path) { answer_path_ = path; }

 private:
  // Opens the path that the connection's messages take now, if only one that drops and counts them.
  virtual void open_path(const Connection& connection, PathSlot& slot) = 0;

  const std::uint64_t& generation_;
  MessageObserver* observer_ = nullptr;
  Path* answer_path_ = nullptr;
};

// Who sees to it that a GID belongs to one adapter.
class GidRegistry {
 public:
  virtual ~GidRegistry() = default;
  // A guest bound or unbound a GID on this adapter. False: another one of the segment has it already.
  virtual bool bind_gid(const Gid& gid) = 0;
  virtual void unbind_gid(const Gid& gid) = 0;
};

// An adapter's place on its switch, as its engine sees it.
class SwitchPort : public Wire, public GidRegistry, public guestmem::MemoryWatcher {
 public:
  using Wire::Wire;
  // While it is stopped, nothing comes to the engine and nothing of it leaves: its peers repeat. Its GIDs
  // stay bound, and its guest is told nothing. When it works again, those of its host do so at once: how many
  // QPs were looked through for that. On an empty stack.
  virtual std::uint64_t set_stopped(bool stopped) = 0;

  // Of the engine's memory: whoever has shown it to a device has taken it back when this returns.
  void on_unmapping(std::span<const std::byte> /*memory*/) override {}
};

}  // namespace pvrdma::verbs
