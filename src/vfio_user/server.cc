#include "vfio_user/server.h"

#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "base/client_fd.h"
#include "base/descriptor_limit.h"
#include "base/log.h"

namespace pvrdma::vfio_user {
namespace {

constexpr int kBacklog = 4;  // room for one client; further clients wait only to be refused
constexpr mode_t kOwnersMode = 0600;
constexpr mode_t kGroupsMode = 0660;

constexpr const char* kNoMemory = "out of memory";  // short enough for std::string to allocate nothing
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
  auto listener = UnixListener::listen(std::move(path),
                                       {.what = "vfio-user socket",
                                        .mode = options.owner.group ? kGroupsMode : kOwnersMode,
                                        .backlog = kBacklog,
                                        .owner = options.owner},
                                       std::move(options.listener));
  if (!listener) return Failure(std::move(listener).error());
  if (options.seat.clock == nullptr) options.seat.clock = &kSystemClock;
  return std::unique_ptr<Server>(new Server(*std::move(listener), handler, std::move(options)));
}

Server::Server(std::unique_ptr<UnixListener> listener, Handler& handler, ServerOptions options)
    : listener_(std::move(listener)),
      queue_(options.seat.queue),
      clock_(*options.seat.clock),
      accept_errors_(1, kAcceptErrorLogInterval),
      client_log_(kClientLogBurst, kClientLogInterval),
      seat_(std::make_unique<Seat>(listener_->path(), handler, std::move(options.seat), client_log_)) {}

Server::~Server() = default;

void Server::leave() {
  seat_->leave();
  listener_->leave();
}

Seat& Server::expect_successor(Handler& handler, SeatOptions options) {
  if (options.clock == nullptr) options.clock = &clock_;
  successor_ = std::make_unique<Seat>(path(), handler, std::move(options), client_log_);
  return *successor_;
}

void Server::on_listen_ready() {
  try {
    accept_client();
  } catch (const std::bad_alloc&) {
    pause_accepting(kNoMemory);
  }
}

void Server::accept_client() {
  if (queue_ != nullptr && !queue_->has_room()) {
    pause_accepting(
        fmt::format("{} file descriptors of earlier clients are still being closed", queue_->waiting()));
    return;
  }
  ClientFd client(Fd(::accept4(listen_fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK)), queue_);
  if (!client) {
    const bool nobody_there = errno == EAGAIN || errno == EINTR || errno == ECONNABORTED;
    if (!nobody_there) pause_accepting(text_of(errno));
    return;
  }
  const Instant now = clock_.now();
  Seat* const seat = free_seat();
  if (seat == nullptr) {
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
  seat->take(std::move(client));
}

// The end of the last client may still wait in its socket. A VM that is killed and started again connects
// that quickly.
Seat* Server::free_seat() const {
  seat_->on_ready(true, true);
  if (seat_->fd() < 0) return seat_.get();
  return successor_ != nullptr && successor_->fd() < 0 ? successor_.get() : nullptr;
}

// The waiting client would keep listen_fd() readable for ever, so it stays in the backlog for a while.
void Server::pause_accepting(std::string_view why) {
  const Instant now = clock_.now();
  accept_again_at_ = now + kAcceptPause;
  if (accept_errors_.allow(now))
    log::error("vfio-user {}: cannot accept a client: {}; trying again each second", path(), why);
}

}  // namespace pvrdma::vfio_user
