// Server: one device's vfio-user socket, one client at a time.
//
// Sans loop: the owner's poll loop waits for listen_fd() to become readable, and for session_fd() to
// become readable or, while wants_write(), writable instead (until the pending reply has left, nothing is
// read, so waiting for readability then would spin). It reads session_fd() and wants_write() again after
// every on_...() call. Both fds are level-triggered: one call does a bounded amount of work and leaves the
// rest for the next turn.
//
// A client that breaks the protocol loses its session, with one log line; the server listens on. A second
// client is accepted and closed, so that it does not hang in the backlog.
//
// Thread: owned by one thread (the shard); Handler is called on it.
// Source: docs/device.md section 8.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "base/log.h"
#include "base/result.h"
#include "base/unix_listener.h"
#include "vfio_user/handler.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {

class Server {
 public:
  // Binds `path` (mode 0600) and listens. A socket file left behind by a dead process is replaced. `handler`
  // is borrowed and outlives the server. Errors, each one sentence with the path and the way out:
  // ENAMETOOLONG, EADDRINUSE (a living server, or a file that is no socket), ENOENT (directory), or bind's
  // errno.
  static Result<std::unique_ptr<Server>> listen(std::string path, Handler& handler);

  // Ends the session (the handler is told) and removes the socket file if it is still this server's.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& path() const { return listener_->path(); }
  int listen_fd() const { return listener_->fd(); }
  int session_fd() const { return session_ ? session_->fd() : -1; }  // -1 = no client
  bool wants_write() const { return session_ && session_->wants_write(); }

  // While `why` is not empty, every client that comes is sent away, and `why` is logged. A client that is
  // here already stays.
  void refuse_clients(std::string why) { refusal_ = std::move(why); }

  // Accepts one client, or refuses it if there is one that has not gone.
  void on_listen_ready();

  // At most one burst of messages (Session::run). May be called speculatively, when nothing is ready. Hang-up
  // and error count as both. True if there was something to do: what a spinning loop wants to know.
  bool on_session_ready(bool readable, bool writable);

 private:
  Server(std::unique_ptr<UnixListener> listener, Handler& handler);

  void end_session(std::string_view reason);

  const std::unique_ptr<UnixListener> listener_;
  Handler& handler_;
  std::optional<Session> session_;
  std::string refusal_;
  log::LogLimiter accept_errors_;
  log::LogLimiter refusal_log_;  // a client may try again at once
};

}  // namespace pvrdma::vfio_user
