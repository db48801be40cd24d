#include "api/connection_threads.h"

#include <cerrno>
#include <cstring>
#include <exception>
#include <optional>
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
      wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)),
      queue_(threads) {}

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
      std::string client = client_of(address_of(connection.get()));
      const std::lock_guard lock(mutex_);
      queue_.put({std::move(connection), std::move(client)});
      changed_.notify_one();
    } else if (const int code = errno;
               code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM) {
      if (may_log()) {
        log::warn("{}: a connection cannot be accepted: {}", what_, ::strerrordesc_np(code));
      }
      ::poll(&fds[1], 1, kAcceptPauseMs);
    }
  }
}

void ConnectionThreads::work() {
  begin_control_thread("api");
  std::unique_lock lock(mutex_);
  for (;;) {
    std::optional<ConnectionQueue::Connection> next;
    changed_.wait(lock, [&] { return closing_ || (next = queue_.take()).has_value(); });
    if (closing_) return;
    lock.unlock();
    const std::string client = next->client;
    serve(*std::move(next));
    lock.lock();
    queue_.done(client);
  }
}

void ConnectionThreads::serve(ConnectionQueue::Connection connection) {
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
