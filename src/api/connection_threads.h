// ConnectionThreads: accepts the connections to a listening socket. One of a few threads serves each
// connection. connection_queue.h says which one is next, so that no client holds up the others.
//
// An exception ends a connection, with a line in the log, but not the thread.
//
// Thread: one thread creates, starts and destroys it; `serve` runs on its threads.
#pragma once

#include <atomic>
#include <condition_variable>
#include <cstddef>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "api/connection_queue.h"
#include "base/fd.h"
#include "base/log.h"

namespace pvrdma::api {

class ConnectionThreads {
 public:
  // Serves one connection, a non-blocking socket, until it ends or `closing` is true.
  using Serve = std::function<void(ConnectionQueue::Connection connection, const std::atomic<bool>& closing)>;

  // `what` names the connections in the log ("API over TCP").
  ConnectionThreads(std::string what, std::size_t threads, Serve serve);
  ~ConnectionThreads();  // waits for the threads that serve
  ConnectionThreads(const ConnectionThreads&) = delete;
  ConnectionThreads& operator=(const ConnectionThreads&) = delete;

  // `listener` is non-blocking and borrowed. Call it once.
  void start(int listener);

 private:
  void accept_all(int listener);
  void work();
  void serve(ConnectionQueue::Connection connection);
  bool may_log();

  const std::string what_;
  const std::size_t thread_count_;
  const Serve serve_;
  const Fd wake_;
  std::atomic<bool> closing_{false};
  std::mutex mutex_;
  std::condition_variable changed_;
  ConnectionQueue queue_;
  log::LogLimiter log_limit_{1, std::chrono::seconds(10)};
  std::vector<std::thread> threads_;
};

}  // namespace pvrdma::api
