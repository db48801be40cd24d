// Seat: a device's place for one client. It holds the client's session, from the accepted socket to its end.
//
// Sans loop: the owner's poll loop waits for fd() to become writable while wants_write(), and readable while
// wants_read(). (A pending reply blocks commands, so waiting for readability then would spin.) The owner
// reads fd() and both conditions again after every call of on_ready(), drop_client() and dma_...(), and calls
// on_time() at next_deadline(). A burst may leave input that the socket does not report any more: while
// has_more(), the owner calls continue_session() each turn.
//
// A client that breaks the protocol loses its session, with one log line, and the seat is free again.
//
// Thread: owned by the thread that drives its Server (the shard); Handler is called on it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include "base/client_fd.h"
#include "base/log.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "vfio_user/handler.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {

struct SeatOptions {
  std::shared_ptr<ReaperQueue> queue;  // as SessionSurroundings::queue
  const Clock* clock = nullptr;        // as SessionSurroundings::clock
  // Called before a client's socket is closed: the owner stops watching fd().
  std::function<void()> before_close;
  std::function<void()> request_room;  // as SessionSurroundings::request_room
};

class Seat {
 public:
  // `handler` and `log` are borrowed and outlive the seat. Log lines contain `name`.
  Seat(std::string name, Handler& handler, SeatOptions options, log::LogLimiter& log);
  // Ends the session and tells the handler.
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  int fd() const { return session_ ? session_->fd() : -1; }  // -1 = no client
  // Whether a client has agreed on the version.
  bool established() const { return session_ && session_->established(); }
  bool wants_write() const { return session_ && session_->wants_write(); }
  bool wants_read() const { return session_ && session_->wants_read(); }
  bool has_more() const { return session_ && !held_ && session_->has_more(); }

  // Only while the seat is free.
  void take(ClientFd client);

  // Takes a client together with its session of another process. Only while the seat is free. Errors: those
  // of Session::restore(); the seat is free then.
  Result<void> take_back(ClientFd client, const SavedSession& saved, std::span<ClientFd> held);
  std::uint32_t max_request_bytes() const { return session_ ? session_->max_request_bytes() : 0; }
  // As Session::save(); also ENOTCONN without a client.
  Result<SavedSession> save() const;
  std::span<const ClientFd> held_fds() const {
    return session_ ? session_->held_fds() : std::span<const ClientFd>();
  }
  // Another process continues the session: neither the client nor the handler is told.
  void leave();

  // Ends the client's session, if there is one, for a reason that is not the client's fault.
  void end(std::string_view why) {
    if (session_) end_session(why);
  }

  // Ends the client's session, if there is one, because the client broke the protocol or cannot be served.
  void drop_client(const std::string& why);

  // While held, the seat reads nothing from the client, and the client waits. If the client has gone, its end
  // is handled as usual. Meanwhile the owner watches fd() for neither direction.
  void hold(bool held) { held_ = held; }

  // While a session is kept, the seat does not react to the client's end. It finds the end afterwards.
  void keep_session(bool kept) { kept_ = kept; }
  // Drops the requests to the client that have no reply yet. Their `done` is called with ECONNRESET.
  void give_up_requests();

  // Handles at most one burst of messages (Session::run). May be called speculatively, when nothing is ready.
  // A hang-up or error counts as both readable and writable. Returns true if there was work, which a spinning
  // loop needs to know.
  bool on_ready(bool readable, bool writable);

  // Continues with input that is already received, while has_more().
  void continue_session();

  // Whether the client has closed its end, even if unread input is left.
  bool client_hung_up() const;

  // Access to the client's memory by messages to the client: as in Session, and ENOTCONN without a client.
  // `done` is called with ECONNRESET if the session ends first, also by ~Seat().
  bool can_request() const { return session_ && session_->can_request(); }
  Result<void> dma_read(std::uint64_t address, std::uint32_t size, RequestDone done);
  Result<void> dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done);
  Result<void> dma_write_posted(std::uint64_t address, std::span<const std::byte> data);

  // The time limit of the request that is next to expire.
  Instant next_deadline() const { return session_ ? session_->next_deadline() : Instant::never(); }
  void on_time(Instant now) {
    if (session_) session_->expire_requests(now);
  }

 private:
  bool run_session();
  Result<bool> try_session();
  void end_session(std::string_view reason);

  const std::string name_;
  Handler& handler_;
  const SeatOptions options_;
  log::LogLimiter& log_;
  std::optional<Session> session_;
  bool held_ = false;
  bool kept_ = false;
};

}  // namespace pvrdma::vfio_user
