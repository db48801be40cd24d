#include "api/connection_threads.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <utility>

#include "base/control_thread.h"
#include "base/time.h"

namespace pvrdma::api {
namespace {

constexpr int kAcceptPauseMs = 100;  // the pause when the process has no file descriptor left

}  // namespace

ConnectionThreads::ConnectionThreads(std::string what, std::size_t threads, Serve serve)
    : what_(std::move(what)),
      thread_count_(threads),
      serve_(std::move(serve)),
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

ConnectionThreads::~ConnectionThreads() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  ::eventfd_write(wake_.get(), 1);
  for (std::thread& thread : threads_) thread.join();
}

void ConnectionThreads::start(int listener) {
  for (std::size_t i = 0; i < thread_count_; ++i) threads_.emplace_back([this] { work(); });
  threads_.emplace_back([this, listener] { accept_all(listener); });
}

void ConnectionThreads::accept_all(int listener) {
  begin_control_thread("api");
  while (!closing_) {
    std::array<pollfd, 2> fds{{{listener, POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
    ::poll(fds.data(), fds.size(), -1);
    if (closing_) return;
    Fd connection(::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
    if (connection) {
      enqueue(std::move(connection));
    } else if (const int code = errno;
               code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM) {
      if (may_log()) {
        log::warn("{}: a connection cannot be accepted: {}", what_, ::strerrordesc_np(code));
      }
      ::poll(&fds[1], 1, kAcceptPauseMs);
    }
  }
}

void ConnectionThreads::enqueue(Fd connection) {
  {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return count_ < kWaiting || closing_; });
    if (closing_) return;
    waiting_[(first_ + count_++) % kWaiting] = std::move(connection);
  }
  changed_.notify_all();
}

void ConnectionThreads::work() {
  begin_control_thread("api");
  for (;;) {
    Fd connection;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return count_ != 0 || closing_; });
      if (closing_) return;
      connection = std::move(waiting_[first_]);
      first_ = (first_ + 1) % kWaiting;
      --count_;
    }
    changed_.notify_all();
    serve(std::move(connection));
  }
}

void ConnectionThreads::serve(Fd connection) {
  try {
    serve_(std::move(connection), closing_);
  } catch (const std::exception& problem) {
    if (may_log()) log::error("{}: a connection was dropped: {}", what_, problem.what());
  }
}

bool ConnectionThreads::may_log() {
  const std::lock_guard lock(mutex_);
  return log_limit_.allow(Instant::now());
}

}  // namespace pvrdma::api
