// Path: how the messages of one connection travel at present. The QP owns it; Wire::open_path() makes it when
// the QP goes to RTR, and makes a new one whenever the answer to "where is this GID?" may have changed. ADR
// 12 has the reasons.
//
// Delivery is best effort: a path may lose, duplicate, delay and reorder messages, and may lose its own state
// at any moment. The engines at both ends compensate with message numbers, time limits and repetition. So a
// path keeps no state whose loss the peer would notice.
//
// Who owns what, and until when:
//  * Message structs are borrowed during the call. So is the payload, unless it is lent (loans.h). The
//    payload is guest memory of the sender: its bytes may change while they are read. A path that delivers
//    later copies them or drops the message.
//  * The receiving engine gets the same promise: what it is handed is valid during its on_*() call.
//
// Re-entrancy: a path may call the receiving engine before send_*() returns. That engine may answer on its
// own path and so call the sending engine within the same call. Meanwhile the sending path is neither opened
// nor closed; the receiving engine's path may be opened.
//
// Thread: all calls run on the shard that owns the sending engine. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
#include <string>
#include <type_traits>
#include <utility>

#include "base/time.h"
#include "guestmem/host_span.h"
#include "verbs/message.h"

namespace pvrdma::verbs {

// The two ends of an RC connection, seen from one of them.
struct Connection {
  Endpoint local;
  Endpoint remote;
  Route route{};  // for paths that leave the cluster
  friend bool operator==(const Connection&, const Connection&) = default;
};

class Path {
 public:
  virtual ~Path() = default;

  // Returns false if the connection has no peer at the other end, or no means to reach it.
  virtual bool leads_somewhere() const { return true; }
  // Why messages do not reach the peer, as far as this host knows: one clause. Empty: it knows no reason.
  // Called when a connection fails; may allocate.
  virtual std::string trouble() const { return {}; }
  // Whether pieces must begin at packet boundaries of the connection's MTU. Then room() also grants whole
  // packets only.
  bool carries_packets() const { return carries_packets_; }
  // The smallest piece for which lend_request() or lend_response() is worthwhile; max: the path never lends.
  std::uint32_t lends_from() const { return lends_from_; }

  // How many of the `wanted` bytes (1 for a request without payload) the next request may carry: all, some,
  // or 0. 0 means that the path takes no request now; Engine::on_path_ready() tells when to ask again. The
  // path accepts what it has granted if the request follows at once.
  virtual std::uint32_t room(std::uint32_t wanted, Instant now) = 0;

  // Like room(), for a read or an atomic that asks the peer for `wanted` bytes (1 for a read of 0 bytes).
  virtual std::uint32_t room_to_ask(std::uint32_t wanted, Instant now) {
    return room(1, now) == 0 ? 0 : wanted;
  }

  // How long the oldest request may stay unanswered until it and all later ones are sent again, at no cost in
  // retries. max(): the path sets no limit, only the guest's own time limit applies.
  virtual Duration repeat_after() const { return Duration::max(); }

  // `payload` holds request.bytes bytes; it is empty for reads and atomics. Call it only after room() or
  // room_to_ask().
  virtual void send_request(const Request& request, const guestmem::SpanList& payload, Instant now) = 0;

  // Like send_request(), but the path may read the payload's memory until the request is answered, or until
  // Wire::stop() or stop_all() has returned. Returns false if the path does not lend now; nothing was sent.
  virtual bool lend_request(const Request& /*request*/, const guestmem::SpanList& /*payload*/,
                            Instant /*now*/) {
    return false;
  }

  // `payload` holds response.bytes bytes; only read answers have any. The response is lost if there is no
  // room for it.
  virtual void send_response(const Response& response, const guestmem::SpanList& payload, Instant now) = 0;

  // Like send_response(), for an answer to a read. The path may read the memory until it reports the end by
  // Engine::on_returned() with `rkey`, or until it is stopped. Returns false if nothing was sent.
  virtual bool lend_response(const Response& /*response*/, std::uint32_t /*rkey*/,
                             const guestmem::SpanList& /*payload*/, Instant /*now*/) {
    return false;
  }

 protected:
  explicit Path(bool carries_packets = false, std::uint32_t lends_from = ~0U)
      : carries_packets_(carries_packets), lends_from_(lends_from) {}

 private:
  const bool carries_packets_;
  const std::uint32_t lends_from_;
};

// A QP's storage for its path: the path is constructed in place without allocating, so that it can be
// replaced between a doorbell and its completion.
class PathSlot {
 public:
  static constexpr std::size_t kBytes = 64;

  PathSlot() = default;
  ~PathSlot() { close(); }
  PathSlot(const PathSlot&) = delete;
  PathSlot& operator=(const PathSlot&) = delete;

  // Closes the current path and constructs another.
  template <typename Made, typename... Arguments>
  Made& open(Arguments&&... arguments) {
    static_assert(std::is_base_of_v<Path, Made>);
    static_assert(sizeof(Made) <= kBytes && alignof(Made) <= alignof(std::max_align_t));
    close();
    Made* made = ::new (static_cast<void*>(place_.data())) Made(std::forward<Arguments>(arguments)...);
    path_ = made;
    return *made;
  }
  // Afterwards the closed path reads and writes nothing on the connection's behalf.
  void close() {
    if (path_ != nullptr) path_->~Path();
    path_ = nullptr;
    generation_ = 0;
  }

  bool is_open() const { return path_ != nullptr; }
  Path& operator*() const { return *path_; }
  Path* operator->() const { return path_; }

  // Used by Wire to tell whether the path is still the right one. 0: never opened.
  std::uint64_t generation() const { return generation_; }
  void set_generation(std::uint64_t generation) { generation_ = generation; }

 private:
  alignas(std::max_align_t) std::array<std::byte, kBytes> place_;
  Path* path_ = nullptr;  // points into place_
  std::uint64_t generation_ = 0;
};

}  // namespace pvrdma::verbs
