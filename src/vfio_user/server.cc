#include "vfio_user/server.h"

#include <cerrno>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/log.h"

namespace pvrdma::vfio_user {
namespace {

constexpr int kBacklog = 4;  // one client; the others are only waiting to be refused
constexpr mode_t kSocketMode = 0600;

// A process out of file descriptors stays so for a while, and the waiting client keeps listen_fd() readable.
constexpr Duration kAcceptErrorLogInterval = std::chrono::seconds(10);
constexpr std::uint32_t kRefusalLogBurst = 5;
constexpr Duration kRefusalLogInterval = std::chrono::seconds(10);

std::string text_of(int code) {
  return std::generic_category().message(code);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(std::string path, Handler& handler) {
  auto listener = UnixListener::listen(
      std::move(path), {.what = "vfio-user socket", .mode = kSocketMode, .backlog = kBacklog});
  if (!listener) return Failure(std::move(listener).error());
  return std::unique_ptr<Server>(new Server(*std::move(listener), handler));
}

Server::Server(std::unique_ptr<UnixListener> listener, Handler& handler)
    : listener_(std::move(listener)),
      handler_(handler),
      accept_errors_(1, kAcceptErrorLogInterval),
      refusal_log_(kRefusalLogBurst, kRefusalLogInterval) {}

Server::~Server() {
  if (session_) end_session("the server stops");
}

void Server::on_listen_ready() {
  Fd client(::accept4(listen_fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!client) {
    const bool nobody_there = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!nobody_there && accept_errors_.allow(Instant::now())) {
      log::error("vfio-user {}: cannot accept a client: {}", path(), text_of(errno));
    }
    return;
  }
  // The end of the last client may still wait in its socket: a VM that is killed and started again connects
  // that fast.
  on_session_ready(true, true);
  if (session_) {
    log::warn("vfio-user {}: refused a second client: one at a time", path());
    return;
  }
  if (!refusal_.empty()) {
    if (refusal_log_.allow(Instant::now())) log::warn("vfio-user {}: refused a client: {}", path(), refusal_);
    return;
  }
  session_.emplace(std::move(client), handler_, path());
}

bool Server::on_session_ready(bool readable, bool writable) {
  if (!session_ || !(session_->wants_write() ? writable : readable)) return false;
  auto worked = session_->run();
  if (worked) return *worked;
  const Error& error = worked.error();
  if (error.code == 0) {
    log::info("vfio-user {}: client left: {}", path(), error.message);
  } else {
    log::warn("vfio-user {}: ended the client's session: {}", path(), error.message);
  }
  end_session(error.message);
  return true;
}

void Server::end_session(std::string_view reason) {
  if (session_->established()) handler_.disconnected(reason);
  session_.reset();
}

}  // namespace pvrdma::vfio_user
