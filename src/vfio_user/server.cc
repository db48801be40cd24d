#include "vfio_user/server.h"

#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <poll.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/client_fd.h"
#include "base/descriptor_limit.h"
#include "base/log.h"

namespace pvrdma::vfio_user {
namespace {

constexpr int kBacklog = 4;  // one client; the others are only waiting to be refused
constexpr mode_t kOwnersMode = 0600;
constexpr mode_t kGroupsMode = 0660;

constexpr const char* kNoMemory = "out of memory";  // short enough to need none
constexpr const char* kNoClient = "there is no client";
constexpr Duration kAcceptPause = std::chrono::seconds(1);
constexpr Duration kAcceptErrorLogInterval = std::chrono::seconds(10);
constexpr std::uint32_t kClientLogBurst = 20;
constexpr Duration kClientLogInterval = std::chrono::seconds(1);

const SteadyClock kSystemClock;

std::string text_of(int code) {
  return std::generic_category().message(code);
}

}  // namespace

Result<std::unique_ptr<Server>> Server::listen(std::string path, Handler& handler, ServerOptions options) {
  auto listener =
      UnixListener::listen(std::move(path), {.what = "vfio-user socket",
                                             .mode = options.owner.group ? kGroupsMode : kOwnersMode,
                                             .backlog = kBacklog,
                                             .owner = options.owner});
  if (!listener) return Failure(std::move(listener).error());
  if (options.clock == nullptr) options.clock = &kSystemClock;
  return std::unique_ptr<Server>(new Server(*std::move(listener), handler, std::move(options)));
}

Server::Server(std::unique_ptr<UnixListener> listener, Handler& handler, ServerOptions options)
    : listener_(std::move(listener)),
      handler_(handler),
      options_(std::move(options)),
      accept_errors_(1, kAcceptErrorLogInterval),
      client_log_(kClientLogBurst, kClientLogInterval) {}

Server::~Server() {
  if (session_) end_session("the server stops");
}

void Server::on_listen_ready() {
  try {
    accept_client();
  } catch (const std::bad_alloc&) {
    pause_accepting(kNoMemory);
  }
}

void Server::accept_client() {
  if (options_.queue != nullptr && !options_.queue->has_room()) {
    pause_accepting(fmt::format("{} file descriptors of earlier clients are still being closed",
                                options_.queue->waiting()));
    return;
  }
  ClientFd client(Fd(::accept4(listen_fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), options_.queue);
  if (!client) {
    const bool nobody_there = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!nobody_there) pause_accepting(text_of(errno));
    return;
  }
  // The end of the last client may still wait in its socket: a VM that is killed and started again connects
  // that fast.
  on_session_ready(true, true);
  const Instant now = options_.clock->now();
  if (session_) {
    if (client_log_.allow(now))
      log::warn("vfio-user {}: refused a second client: one at a time{}", path(), held_back(client_log_));
    return;
  }
  if (!refusal_.empty()) {
    if (client_log_.allow(now))
      log::warn("vfio-user {}: refused a client: {}{}", path(), refusal_, held_back(client_log_));
    return;
  }
  if (is_of_descriptor_reserve(client.get())) {
    pause_accepting("the file descriptors that are left are for the clients there are (raise RLIMIT_NOFILE)");
    return;
  }
  session_.emplace(std::move(client), handler_, path(),
                   SessionSurroundings{options_.queue, options_.clock, &client_log_, options_.request_room});
}

// The waiting client would keep listen_fd() readable for ever: it is left in the backlog for a while.
void Server::pause_accepting(std::string_view why) {
  const Instant now = options_.clock->now();
  accept_again_at_ = now + kAcceptPause;
  if (accept_errors_.allow(now))
    log::error("vfio-user {}: cannot accept a client: {}; trying again each second", path(), why);
}

bool Server::on_session_ready(bool readable, bool writable) {
  if (!session_ || !((writable && session_->wants_write()) || (readable && session_->wants_read())))
    return false;
  if (held_ && !client_hung_up()) return false;
  return run_session();
}

void Server::continue_session() {
  if (has_more()) run_session();
}

bool Server::run_session() {
  auto worked = try_session();
  if (worked) return *worked;
  const Error& error = worked.error();
  if (error.code != 0) {
    drop_client(error.message);
  } else {
    if (client_log_.allow(options_.clock->now()))
      log::info("vfio-user {}: client left: {}{}", path(), error.message, held_back(client_log_));
    end_session(error.message);
  }
  return true;
}

bool Server::client_hung_up() const {
  pollfd socket{session_->fd(), 0, 0};
  return ::poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

// What a message needs and there is no memory for costs its client the session: which step of it was the last
// one, nobody could tell.
Result<bool> Server::try_session() {
  try {
    return session_->run();
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, kNoMemory);
  }
}

void Server::drop_client(const std::string& why) {
  if (!session_) return;
  if (client_log_.allow(options_.clock->now()))
    log::warn("vfio-user {}: ended the client's session: {}{}", path(), why, held_back(client_log_));
  end_session(why);
}

void Server::end_session(std::string_view reason) {
  if (session_->established()) handler_.disconnected(reason);
  if (options_.before_close) options_.before_close();
  session_->shut_down();
  RequestTable requests = session_->take_requests();
  session_.reset();
  requests.fail_all(ECONNRESET);
}

Result<void> Server::dma_read(std::uint64_t address, std::uint32_t size, RequestDone done) {
  if (!session_) return fail(ENOTCONN, kNoClient);
  return session_->dma_read(address, size, std::move(done));
}

Result<void> Server::dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done) {
  if (!session_) return fail(ENOTCONN, kNoClient);
  return session_->dma_write(address, data, std::move(done));
}

Result<void> Server::dma_write_posted(std::uint64_t address, std::span<const std::byte> data) {
  if (!session_) return fail(ENOTCONN, kNoClient);
  return session_->dma_write_posted(address, data);
}

}  // namespace pvrdma::vfio_user
