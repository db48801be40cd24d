#include "standin/event_channel.h"

#include <algorithm>
#include <cerrno>
#include <poll.h>
#include <sys/socket.h>

#include "base/descriptor_limit.h"

namespace pvrdma::standin {
namespace {

constexpr int kQueueBytes = 1 << 20;  // the kernel gives what its limit allows

}  // namespace

Result<EventChannel::Ends> EventChannel::create() {
  int ends[2];
  if (::socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) != 0)
    return fail_errno(errno, "making a channel of events");
  Fd own(ends[0]);
  Fd program(ends[1]);
  if (is_of_descriptor_reserve(std::max(own.get(), program.get())))
    return fail(EMFILE, "a channel of events: too many descriptors are open (raise RLIMIT_NOFILE)");
  (void)::setsockopt(own.get(), SOL_SOCKET, SO_SNDBUF, &kQueueBytes, sizeof(kQueueBytes));
  return Ends{std::shared_ptr<EventChannel>(new EventChannel(std::move(own))), std::move(program)};
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
