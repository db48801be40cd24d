#include "shard/poller.h"

#include <cerrno>
#include <ctime>
#include <fmt/core.h>
#include <new>

#include "base/check.h"

namespace pvrdma::shard {
namespace {

std::uint32_t epoll_bits(Interest interest) {
  switch (interest) {
    case Interest::kRead:
      return EPOLLIN;
    case Interest::kWrite:
      return EPOLLOUT;
    case Interest::kBoth:
      return EPOLLIN | EPOLLOUT;
    case Interest::kNone:
      return 0;
  }
  return 0;
}

epoll_event make_event(int fd, std::uint32_t generation, Interest interest) {
  epoll_event event{};
  event.events = epoll_bits(interest);
  event.data.u64 = std::uint64_t{generation} << 32 | static_cast<std::uint32_t>(fd);
  return event;
}

Readiness readiness(std::uint32_t bits) {
  const bool broken = (bits & (EPOLLHUP | EPOLLERR)) != 0;
  return Readiness{broken || (bits & EPOLLIN) != 0, broken || (bits & EPOLLOUT) != 0};
}

}  // namespace

Result<std::unique_ptr<Poller>> Poller::create() {
  Fd epoll(::epoll_create1(EPOLL_CLOEXEC));
  if (!epoll) return fail_errno(errno, "cannot make an epoll instance for a shard");
  return std::unique_ptr<Poller>(new Poller(std::move(epoll)));
}

Result<void> Poller::watch(int fd, Interest interest, FdHandler& handler) {
  try {
    return try_watch(fd, interest, handler);
  } catch (const std::bad_alloc&) {
    return fail(ENOMEM, "out of memory");
  }
}

Result<void> Poller::try_watch(int fd, Interest interest, FdHandler& handler) {
  PVRDMA_CHECK(fd >= 0, "watching needs an open fd");
  const auto index = static_cast<std::size_t>(fd);
  if (index >= watches_.size()) watches_.resize(index + 1);
  Watch& watch = watches_[index];
  PVRDMA_CHECK(watch.handler == nullptr, "an fd is watched once");
  epoll_event event = make_event(fd, watch.generation + 1, interest);
  if (::epoll_ctl(epoll_.get(), EPOLL_CTL_ADD, fd, &event) != 0) {
    return fail_errno(errno, fmt::format("cannot watch file descriptor {}", fd));
  }
  ++watch.generation;
  watch.handler = &handler;
  ++watch_count_;
  return {};
}

void Poller::change(int fd, Interest interest) {
  const auto index = static_cast<std::size_t>(fd);
  PVRDMA_CHECK(fd >= 0 && index < watches_.size() && watches_[index].handler != nullptr,
               "changing a watch there is");
  epoll_event event = make_event(fd, watches_[index].generation, interest);
  const int done = ::epoll_ctl(epoll_.get(), EPOLL_CTL_MOD, fd, &event);
  PVRDMA_CHECK(done == 0, "the fd of a watch that is changed is open");
}

void Poller::unwatch(int fd) {
  const auto index = static_cast<std::size_t>(fd);
  PVRDMA_CHECK(fd >= 0 && index < watches_.size() && watches_[index].handler != nullptr,
               "ending a watch there is");
  watches_[index].handler = nullptr;
  --watch_count_;
  ::epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd,
              nullptr);  // fails for a closed fd, which the kernel has already removed
}

std::size_t Poller::collect(Duration timeout) {
  timespec limit{};
  const bool for_ever = timeout == Duration::max();
  if (!for_ever) {
    const auto seconds = std::chrono::duration_cast<std::chrono::seconds>(timeout);
    limit.tv_sec = seconds.count();
    limit.tv_nsec = (timeout - seconds).count();
  }
  const int count =
      ::epoll_pwait2(epoll_.get(), ready_.data(), kEventsPerWait, for_ever ? nullptr : &limit, nullptr);
  if (count >= 0) return static_cast<std::size_t>(count);
  PVRDMA_CHECK(errno == EINTR, "epoll_pwait2 needs Linux 5.11 or later");
  return 0;
}

FdHandler* Poller::handler_of(std::size_t index) const {
  const std::uint64_t data = ready_[index].data.u64;
  const Watch& watch = watches_[static_cast<std::uint32_t>(data)];
  return watch.generation == data >> 32 ? watch.handler : nullptr;
}

bool Poller::call(std::size_t index) {
  FdHandler* handler = handler_of(index);
  if (handler == nullptr) return false;
  const epoll_event event = ready_[index];
  handler->on_fd_ready(static_cast<int>(static_cast<std::uint32_t>(event.data.u64)), readiness(event.events));
  return true;
}

std::string Poller::what(std::size_t index) const {
  const FdHandler* handler = handler_of(index);
  return handler != nullptr ? handler->what() : "something that is gone";
}

std::size_t Poller::wait(Duration timeout) {
  const std::size_t ready = collect(timeout);
  std::size_t called = 0;
  for (std::size_t i = 0; i < ready; ++i) called += call(i) ? 1 : 0;
  return called;
}

}  // namespace pvrdma::shard
