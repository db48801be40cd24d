// Server: one device's vfio-user socket, one client at a time.
//
// Sans loop: the owner's poll loop waits for listen_fd() to become readable, and for session_fd() to
// become writable while wants_write(), readable while wants_read() (a pending reply keeps commands waiting,
// so waiting for readability then would spin). It reads session_fd() and both again after every on_...() and
// dma_...() call, and calls on_time() at next_deadline(). Both fds are level-triggered: one call does a
// bounded amount of work and leaves the rest for the next turn. What a burst was too short for is no news of
// the socket any more: while has_more(), continue_session() is called each turn.
//
// A client that breaks the protocol loses its session, with one log line; the server listens on. A second
// client is accepted and closed, so that it does not hang in the backlog. While descriptors or memory run
// out, or what earlier clients handed over cannot be closed, nobody is accepted: accept_again_at() says until
// when the owner leaves listen_fd() alone.
//
// Thread: owned by one thread (the shard); Handler is called on it.
// Source: docs/device.md section 8.
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

#include "base/log.h"
#include "base/reaper.h"
#include "base/result.h"
#include "base/time.h"
#include "base/unix_listener.h"
#include "vfio_user/handler.h"
#include "vfio_user/session.h"

namespace pvrdma::vfio_user {

struct ServerOptions {
  std::shared_ptr<ReaperQueue> queue;  // as SessionSurroundings'
  const Clock* clock = nullptr;        // likewise
  // Called before a client's socket ends: the owner stops watching session_fd().
  std::function<void()> before_close;
  std::function<void()> request_room;  // as SessionSurroundings'
  SocketOwner owner;                   // of the socket's file
};

class Server {
 public:
  // Binds `path` (mode 0600; 0660 where its owner has a group) and listens. A socket file left behind by a
  // dead process is replaced. `handler` is borrowed and outlives the server. Errors, each one sentence with
  // the path and the way out: ENAMETOOLONG, EADDRINUSE (a living server, or a file that is no socket), ENOENT
  // (directory), EPERM (the owner), or bind's errno.
  static Result<std::unique_ptr<Server>> listen(std::string path, Handler& handler,
                                                ServerOptions options = {});

  // Ends the session (the handler is told) and removes the socket file if it is still this server's.
  ~Server();

  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  const std::string& path() const { return listener_->path(); }
  int listen_fd() const { return listener_->fd(); }
  int session_fd() const { return session_ ? session_->fd() : -1; }  // -1 = no client
  bool wants_write() const { return session_ && session_->wants_write(); }
  bool wants_read() const { return session_ && session_->wants_read(); }
  bool has_more() const { return session_ && !held_ && session_->has_more(); }

  // Not never(): listen_fd() is not to be watched until then.
  Instant accept_again_at() const { return accept_again_at_; }
  void accept_again() { accept_again_at_ = Instant::never(); }
  void pause_accepting(std::string_view why);  // for a second; `why` is logged

  // While `why` is not empty, every client that comes is sent away, and `why` is logged. A client that is
  // here already stays.
  void refuse_clients(std::string why) { refusal_ = std::move(why); }

  // Ends the client's session, if there is one: it broke the rules, or cannot be served.
  void drop_client(const std::string& why);

  // Accepts one client, or refuses it if there is one that has not gone.
  void on_listen_ready();

  // While held, nothing of the client is read and it waits, unless it has gone: then its end is dealt with as
  // ever. The owner watches session_fd() for neither direction meanwhile.
  void hold(bool held) { held_ = held; }

  // At most one burst of messages (Session::run). May be called speculatively, when nothing is ready. Hang-up
  // and error count as both. True if there was something to do: what a spinning loop wants to know.
  bool on_session_ready(bool readable, bool writable);

  // The client's memory through the client: as Session's, and ENOTCONN without a client. `done` is called
  // with ECONNRESET when the session ends first, ~Server() included.
  bool can_request() const { return session_ && session_->can_request(); }
  Result<void> dma_read(std::uint64_t address, std::uint32_t size, RequestDone done);
  Result<void> dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done);
  Result<void> dma_write_posted(std::uint64_t address, std::span<const std::byte> data);

  // When the next request is over its time limit.
  Instant next_deadline() const { return session_ ? session_->next_deadline() : Instant::never(); }
  void on_time(Instant now) {
    if (session_) session_->expire_requests(now);
  }

  // Goes on with what was received before, while has_more().
  void continue_session();

 private:
  Server(std::unique_ptr<UnixListener> listener, Handler& handler, ServerOptions options);

  void accept_client();
  bool run_session();
  bool client_hung_up() const;
  Result<bool> try_session();
  void end_session(std::string_view reason);

  const std::unique_ptr<UnixListener> listener_;
  Handler& handler_;
  std::optional<Session> session_;
  std::string refusal_;
  const ServerOptions options_;
  Instant accept_again_at_ = Instant::never();
  bool held_ = false;
  log::LogLimiter accept_errors_;
  log::LogLimiter client_log_;  // a client may come, break the rules and go as often as it likes
};

}  // namespace pvrdma::vfio_user
