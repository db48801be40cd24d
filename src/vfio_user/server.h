// Server: one device's vfio-user socket, and the seat of its client (seat.h). One client at a time; while its
// successor is expected (another VMM, which is to go on with the VM), the next one gets a seat of its own
// beside it, with a handler of its own.
//
// Sans loop: the owner's poll loop waits for listen_fd() to become readable, and for the seats as seat.h
// says. All fds are level-triggered: one call does a bounded amount of work and leaves the rest for the next
// turn.
//
// A client for whom there is no seat is accepted and closed, so that it does not hang in the backlog. While
// descriptors or memory run out, or what earlier clients handed over cannot be closed, nobody is accepted:
// accept_again_at() says until when the owner leaves listen_fd() alone.
//
// Thread: owned by one thread (the shard); Handler is called on it.
// Source: docs/device.md section 8.
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unix_listener.h"
#include "vfio_user/handler.h"
#include "vfio_user/seat.h"

namespace pvrdma::vfio_user {

struct ServerOptions {
  SeatOptions seat;   // of the first
  SocketOwner owner;  // of the socket's file
  // What listened there in another process, to go on with; empty, or another path's: none.
  Fd listener;
};

class Server {
 public:
  // Binds `path` (mode 0600; 0660 where its owner has a group) and listens. A socket file left behind by a
  // dead process is replaced. `handler` is borrowed and outlives the server. Errors, each one sentence with
  // the path and the way out: ENAMETOOLONG, EADDRINUSE (a living server, or a file that is no socket), ENOENT
  // (directory), EPERM (the owner), or bind's errno.
  static Result<std::unique_ptr<Server>> listen(std::string path, Handler& handler,
                                                ServerOptions options = {});

  // Ends the sessions (each handler is told) and removes the socket file if it is still this server's.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& path() const { return listener_->path(); }
  int listen_fd() const { return listener_->fd(); }
  Seat& seat() { return *seat_; }
  const Seat& seat() const { return *seat_; }

  // The sockets are another process's from now on: no client is told, and the file stays.
  void leave();

  // Not never(): listen_fd() is not to be watched until then.
  Instant accept_again_at() const { return accept_again_at_; }
  void accept_again() { accept_again_at_ = Instant::never(); }
  void pause_accepting(std::string_view why);  // for a second; `why` is logged

  // While `why` is not empty, every client that comes is sent away, and `why` is logged. A client that is
  // here already stays.
  void refuse_clients(std::string why) { refusal_ = std::move(why); }
  const std::string& refusal() const { return refusal_; }

  // A seat for the client's successor, which is `handler`'s; borrowed until end_successor(). Only while there
  // is none.
  Seat& expect_successor(Handler& handler, SeatOptions options);
  Seat* successor() const { return successor_.get(); }  // null: none is expected
  // The successor's seat becomes seat(), and the other way round.
  void swap_seats() { std::swap(seat_, successor_); }
  // Ends its session, if there is one.
  void end_successor() {
    if (successor_ != nullptr) successor_->end("its VM is in another VMM");
    successor_.reset();
  }

  // Accepts one client, or refuses it if there is no seat for it.
  void on_listen_ready();

 private:
  Server(std::unique_ptr<UnixListener> listener, Handler& handler, ServerOptions options);

  void accept_client();
  Seat* free_seat() const;

  const std::unique_ptr<UnixListener> listener_;
  const std::shared_ptr<ReaperQueue> queue_;
  const Clock& clock_;
  std::string refusal_;
  Instant accept_again_at_ = Instant::never();
  log::LogLimiter accept_errors_;
  log::LogLimiter client_log_;  // a client may come, break the rules and go as often as it likes
  std::unique_ptr<Seat> seat_;
  std::unique_ptr<Seat> successor_;  // null: none is expected
};

}  // namespace pvrdma::vfio_user
