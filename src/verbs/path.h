// Path: how the messages of one connection travel now. Owned by its QP, made by Wire::open_path() when the QP
// goes to RTR and anew whenever the answer to "where is this GID?" may have changed. ADR 12 has the contract
// and what comes.
//
// Delivery is best effort: a path may lose, double, delay and reorder messages, and may lose its own state at
// any moment. The engines at both ends make up for it with message numbers, time limits and repetition, so
// nothing that its peer would miss lives in a path.
//
// Who owns what until when:
//  * Message structs and payload are borrowed during the call, unless the payload is lent (loans.h). The
//    payload is guest memory of the sender: its bytes may change while the path reads them. A path that
//    delivers later copies them, or drops the message.
//  * The receiving engine gets the same promise: what it is handed is valid during its on_*() call.
//
// Re-entrancy: a path may call the receiving engine before send_*() returns, and that engine may answer on
// its own path, and so call the sending engine, before that. The path that sends is neither opened nor closed
// meanwhile; the receiving engine's may be opened.
//
// Thread: all of it on the shard that owns the sending engine. Nothing here allocates.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <new>
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

  // False: there is nobody at its other end, or no means to get there.
  virtual bool leads_somewhere() const { return true; }
  // Whether a piece must begin where a packet of the connection's MTU does, and grants of room end there.
  bool carries_packets() const { return carries_packets_; }
  // How many bytes a piece must have at least to be worth a lend_request() or lend_response(); max: it never
  // lends.
  std::uint32_t lends_from() const { return lends_from_; }

  // How many of the `wanted` bytes (1 for a request without payload) the next request may carry: all, some,
  // or 0: the path takes no request now, and Engine::on_path_ready() tells when to ask again. What it grants
  // it does not refuse, as long as the request follows at once.
  virtual std::uint32_t room(std::uint32_t wanted, Instant now) = 0;

  // The same for a read or an atomic, which asks for so many bytes of the peer (1 for a read of none).
  virtual std::uint32_t room_to_ask(std::uint32_t wanted, Instant now) {
    return room(1, now) == 0 ? 0 : wanted;
  }

  // How long the oldest request may be unanswered until it is sent again, with all that follows, at no
  // retry's cost; max(): the peer's answer or the guest's own time limit is waited for.
  virtual Duration repeat_after() const { return Duration::max(); }

  // `payload` holds request.bytes bytes, nothing for reads and atomics. After room() or room_to_ask() only.
  virtual void send_request(const Request& request, const guestmem::SpanList& payload, Instant now) = 0;

  // The same, but the payload's memory stays the path's to read until the request is answered, or until
  // Wire::stop() or stop_all() has returned. False: it lends nothing now, and nothing was sent.
  virtual bool lend_request(const Request& /*request*/, const guestmem::SpanList& /*payload*/,
                            Instant /*now*/) {
    return false;
  }

  // `payload` holds response.bytes bytes, only for reads. Lost when there is no room for it.
  virtual void send_response(const Response& response, const guestmem::SpanList& payload, Instant now) = 0;

  // The same for an answer to a read, whose memory stays the path's to read until it says so by
  // Engine::on_returned(), with that key, or until it is stopped. False: nothing was sent.
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

// A QP's place for its path: made there without an allocation, so that a path can be opened anew between a
// doorbell and its completion.
class PathSlot {
 public:
  static constexpr std::size_t kBytes = 64;

  PathSlot() = default;
  ~PathSlot() { close(); }
  PathSlot(const PathSlot&) = delete;
  PathSlot& operator=(const PathSlot&) = delete;

  // Ends the path there is and makes another.
  template <typename Made, typename... Arguments>
  Made& open(Arguments&&... arguments) {
    static_assert(std::is_base_of_v<Path, Made>);
    static_assert(sizeof(Made) <= kBytes && alignof(Made) <= alignof(std::max_align_t));
    close();
    Made* made = ::new (static_cast<void*>(place_.data())) Made(std::forward<Arguments>(arguments)...);
    path_ = made;
    return *made;
  }
  // Afterwards nothing is read or written on the connection's behalf by the path there was.
  void close() {
    if (path_ != nullptr) path_->~Path();
    path_ = nullptr;
    generation_ = 0;
  }

  bool is_open() const { return path_ != nullptr; }
  Path& operator*() const { return *path_; }
  Path* operator->() const { return path_; }

  // Wire's: whether the path is still the right one. 0: never opened.
  std::uint64_t generation() const { return generation_; }
  void set_generation(std::uint64_t generation) { generation_ = generation; }

 private:
  alignas(std::max_align_t) std::array<std::byte, kBytes> place_;
  Path* path_ = nullptr;  // in place_
  std::uint64_t generation_ = 0;
};

}  // namespace pvrdma::verbs
