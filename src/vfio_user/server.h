// Server: one device's vfio-user socket, and the seat of its client (seat.h). It serves one client at a time.
// While the client's successor is expected (another VMM that takes over the VM), the next client gets a
// second seat with its own handler.
//
// Sans loop: the owner's poll loop waits for listen_fd() to become readable, and for the seats as seat.h
// says. All fds are level-triggered: one call does a bounded amount of work and leaves the rest for the next
// turn.
//
// If there is no free seat, the server accepts the client and closes the connection, so that the client does
// not hang in the backlog. The server pauses accepting when descriptors or memory run out, or while
// descriptors of earlier clients cannot be closed. The owner does not watch listen_fd() until
// accept_again_at().
//
// Thread: owned by one thread (the shard); Handler is called on it. Source: docs/device.md section 8.
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
  SeatOptions seat;   // of the first seat
  SocketOwner owner;  // of the socket file
  // A listening socket of another process to continue with. Ignored if it is empty or bound to another path.
  Fd listener;
};

class Server {
 public:
  // Binds `path` (mode 0600; 0660 where its owner has a group) and listens. A socket file left behind by a
  // dead process is replaced. `handler` is borrowed and outlives the server. Each error is one sentence with
  // the path and the fix: ENAMETOOLONG, EADDRINUSE (a living server, or a file that is not a socket), ENOENT
  // (directory), EPERM (the owner), or bind's errno.
  static Result<std::unique_ptr<Server>> listen(std::string path, Handler& handler,
                                                ServerOptions options = {});

  // Ends the sessions, tells their handlers, and removes the socket file if it still belongs to this server.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& path() const { return listener_->path(); }
  int listen_fd() const { return listener_->fd(); }
  Seat& seat() { return *seat_; }
  const Seat& seat() const { return *seat_; }

  // Another process takes over the sockets: no client is told, and the socket file stays.
  void leave();

  // If this is not never(), the owner must not watch listen_fd() until then.
  Instant accept_again_at() const { return accept_again_at_; }
  void accept_again() { accept_again_at_ = Instant::never(); }
  void pause_accepting(std::string_view why);  // for a second; `why` is logged

  // While `why` is not empty, the server refuses every new client and logs `why`. A connected client stays.
  void refuse_clients(std::string why) { refusal_ = std::move(why); }
  const std::string& refusal() const { return refusal_; }

  // Creates a seat for the client's successor. `handler` serves it and is borrowed until end_successor().
  // Only while no successor is expected.
  Seat& expect_successor(Handler& handler, SeatOptions options);
  Seat* successor() const { return successor_.get(); }  // null: no successor is expected
  // Exchanges seat() and successor().
  void swap_seats() { std::swap(seat_, successor_); }
  // Ends the successor's session, if there is one, and removes its seat.
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
  log::LogLimiter client_log_;  // a client may connect, break the rules and leave as often as it likes
  std::unique_ptr<Seat> seat_;
  std::unique_ptr<Seat> successor_;  // null: no successor is expected
};

}  // namespace pvrdma::vfio_user
