// Seat: a device's place for one client: its session, from the accepted socket to its end.
//
// Sans loop: the owner's poll loop waits for fd() to become writable while wants_write(), readable while
// wants_read() (a pending reply keeps commands waiting, so waiting for readability then would spin). It reads
// fd() and both again after every on_ready(), drop_client() and dma_...() call, and calls on_time() at
// next_deadline(). What a burst was too short for is no news of the socket any more: while has_more(),
// continue_session() is called each turn.
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
  std::shared_ptr<ReaperQueue> queue;  // as SessionSurroundings'
  const Clock* clock = nullptr;        // likewise
  // Called before a client's socket ends: the owner stops watching fd().
  std::function<void()> before_close;
  std::function<void()> request_room;  // as SessionSurroundings'
};

class Seat {
 public:
  // `handler` and `log` are borrowed and outlive the seat. `name` stands in log lines.
  Seat(std::string name, Handler& handler, SeatOptions options, log::LogLimiter& log);
  // Ends the session (the handler is told).
  ~Seat();
  Seat(const Seat&) = delete;
  Seat& operator=(const Seat&) = delete;

  int fd() const { return session_ ? session_->fd() : -1; }  // -1 = nobody sits here
  // Somebody has agreed upon the version.
  bool established() const { return session_ && session_->established(); }
  bool wants_write() const { return session_ && session_->wants_write(); }
  bool wants_read() const { return session_ && session_->wants_read(); }
  bool has_more() const { return session_ && !held_ && session_->has_more(); }

  // Only while nobody sits here.
  void take(ClientFd client);

  // Likewise, with the session that another process had with it. Errors: Session::restore()'s; nobody sits
  // here then.
  Result<void> take_back(ClientFd client, const SavedSession& saved, std::span<ClientFd> held);
  std::uint32_t max_request_bytes() const { return session_ ? session_->max_request_bytes() : 0; }
  // As Session's; ENOTCONN also without a client.
  Result<SavedSession> save() const;
  std::span<const ClientFd> held_fds() const {
    return session_ ? session_->held_fds() : std::span<const ClientFd>();
  }
  // Its session is another process's from now on: neither the client nor the handler is told.
  void leave();

  // Ends the client's session, if there is one, for no fault of its own.
  void end(std::string_view why) {
    if (session_) end_session(why);
  }

  // Ends the client's session, if there is one: it broke the rules, or cannot be served.
  void drop_client(const std::string& why);

  // While held, nothing of the client is read and it waits, unless it has gone: then its end is dealt with as
  // ever. The owner watches fd() for neither direction meanwhile.
  void hold(bool held) { held_ = held; }

  // While a session is kept, the client's end is not dealt with: it waits to be seen.
  void keep_session(bool kept) { kept_ = kept; }
  // What it was asked for, and answers no more. `done` is called with ECONNRESET.
  void give_up_requests();

  // At most one burst of messages (Session::run). May be called speculatively, when nothing is ready. Hang-up
  // and error count as both. True if there was something to do: what a spinning loop wants to know.
  bool on_ready(bool readable, bool writable);

  // Goes on with what was received before, while has_more().
  void continue_session();

  // It has closed its end, whatever is left to be read of it.
  bool client_hung_up() const;

  // The client's memory through the client: as Session's, and ENOTCONN without a client. `done` is called
  // with ECONNRESET when the session ends first, ~Seat() included.
  bool can_request() const { return session_ && session_->can_request(); }
  Result<void> dma_read(std::uint64_t address, std::uint32_t size, RequestDone done);
  Result<void> dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done);
  Result<void> dma_write_posted(std::uint64_t address, std::span<const std::byte> data);

  // When the next request is over its time limit.
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
