#include "vfio_user/seat.h"

#include <cerrno>
#include <new>
#include <poll.h>
#include <utility>

namespace pvrdma::vfio_user {
namespace {

constexpr const char* kNoMemory = "out of memory";  // short enough for std::string to allocate nothing
constexpr const char* kNoClient = "there is no client";

}  // namespace

Seat::Seat(std::string name, Handler& handler, SeatOptions options, log::LogLimiter& log)
    : name_(std::move(name)), handler_(handler), options_(std::move(options)), log_(log) {}

Seat::~Seat() {
  if (session_) end_session("the server stops");
}

void Seat::take(ClientFd client) {
  session_.emplace(std::move(client), handler_, name_,
                   SessionSurroundings{options_.queue, options_.clock, &log_, options_.request_room});
}

Result<void> Seat::take_back(ClientFd client, const SavedSession& saved, std::span<ClientFd> held) {
  take(std::move(client));
  auto restored = session_->restore(saved, held);
  if (!restored) end_session("its session cannot be continued");
  return restored;
}

Result<SavedSession> Seat::save() const {
  if (!session_) return fail(ENOTCONN, kNoClient);
  return session_->save();
}

void Seat::leave() {
  if (!session_) return;
  if (options_.before_close) options_.before_close();
  session_.reset();
}

bool Seat::on_ready(bool readable, bool writable) {
  if (!session_ || !((writable && session_->wants_write()) || (readable && session_->wants_read())))
    return false;
  if (held_ && !client_hung_up()) return false;
  if (kept_ && client_hung_up()) return false;
  return run_session();
}

void Seat::continue_session() {
  if (has_more()) run_session();
}

bool Seat::run_session() {
  auto worked = try_session();
  if (worked) return *worked;
  const Error& error = worked.error();
  if (error.code != 0) {
    drop_client(error.message);
  } else {
    if (log_.allow(options_.clock->now()))
      log::info("vfio-user {}: client left: {}{}", name_, error.message, held_back(log_));
    end_session(error.message);
  }
  return true;
}

bool Seat::client_hung_up() const {
  if (!session_) return false;
  pollfd socket{session_->fd(), 0, 0};
  return ::poll(&socket, 1, 0) == 1 && (socket.revents & (POLLHUP | POLLERR)) != 0;
}

// If there is no memory for a message, its client loses the session, because the message may have been
// executed in part.
Result<bool> Seat::try_session() {
  try {
    return session_->run();
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, kNoMemory);
  }
}

void Seat::drop_client(const std::string& why) {
  if (!session_) return;
  if (log_.allow(options_.clock->now()))
    log::warn("vfio-user {}: ended the client's session: {}{}", name_, why, held_back(log_));
  end_session(why);
}

void Seat::end_session(std::string_view reason) {
  if (session_->established()) handler_.disconnected(reason);
  if (options_.before_close) options_.before_close();
  session_->shut_down();
  RequestTable requests = session_->take_requests();
  session_.reset();
  requests.fail_all(ECONNRESET);
}

void Seat::give_up_requests() {
  if (!session_) return;
  RequestTable requests = session_->take_requests();
  requests.fail_all(ECONNRESET);
}

Result<void> Seat::dma_read(std::uint64_t address, std::uint32_t size, RequestDone done) {
  if (!session_ || (kept_ && client_hung_up())) return fail(ENOTCONN, kNoClient);
  return session_->dma_read(address, size, std::move(done));
}

Result<void> Seat::dma_write(std::uint64_t address, std::span<const std::byte> data, RequestDone done) {
  if (!session_ || (kept_ && client_hung_up())) return fail(ENOTCONN, kNoClient);
  return session_->dma_write(address, data, std::move(done));
}

Result<void> Seat::dma_write_posted(std::uint64_t address, std::span<const std::byte> data) {
  if (!session_ || (kept_ && client_hung_up())) return fail(ENOTCONN, kNoClient);
  return session_->dma_write_posted(address, data);
}

}  // namespace pvrdma::vfio_user
