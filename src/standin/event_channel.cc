#include "standin/event_channel.h"

#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

#include "standin/program_socket.h"

namespace pvrdma::standin {
namespace {

constexpr int kQueueBytes = 1 << 20;  // the kernel gives what its limit allows

}  // namespace

Result<EventChannel::Ends> EventChannel::create() {
  auto ends = make_program_socket("a channel of events");
  if (!ends) return Failure(std::move(ends).error());
  (void)::setsockopt(ends->own.get(), SOL_SOCKET, SO_SNDBUF, &kQueueBytes, sizeof(kQueueBytes));
  return Ends{std::shared_ptr<EventChannel>(new EventChannel(std::move(ends->own))),
              std::move(ends->program)};
}

bool EventChannel::put(std::span<const std::byte> event) const {
  const ssize_t sent = ::send(fd_.get(), event.data(), event.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent >= 0 || errno == EPIPE || errno == ECONNRESET;
}

bool EventChannel::is_abandoned() const {
  pollfd look{fd_.get(), 0, 0};
  return ::poll(&look, 1, 0) == 1 && (look.revents & (POLLHUP | POLLERR)) != 0;
}

}  // namespace pvrdma::standin
