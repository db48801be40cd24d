// ClientFd: owns a descriptor from a client, or a socket that may hold such descriptors. The destructor gives
// it to a ReaperQueue, because the client decides how long close() takes. Without a queue (tests, tools) it
// is closed in place. Thread: a value; not shared. It is destroyed on the thread that fills its queue.
#pragma once

#include <memory>
#include <utility>

#include "base/fd.h"
#include "base/reaper.h"

namespace pvrdma {

class ClientFd {
 public:
  ClientFd() = default;
  // Not `explicit`: a descriptor that the daemon made itself needs no queue.
  ClientFd(Fd fd, std::shared_ptr<ReaperQueue> queue = nullptr)
      : fd_(std::move(fd)), queue_(std::move(queue)) {}
  ClientFd(ClientFd&&) noexcept = default;
  ClientFd& operator=(ClientFd&& other) noexcept {
    if (this != &other) {
      reset();
      fd_ = std::move(other.fd_);
      queue_ = std::move(other.queue_);
    }
    return *this;
  }
  ClientFd(const ClientFd&) = delete;
  ClientFd& operator=(const ClientFd&) = delete;
  ~ClientFd() { reset(); }

  int get() const { return fd_.get(); }
  const Fd& fd() const { return fd_; }
  const std::shared_ptr<ReaperQueue>& queue() const { return queue_; }  // null: none
  explicit operator bool() const { return static_cast<bool>(fd_); }
  // Returns the descriptor without its queue, for a caller that knows where it comes from.
  Fd take() {
    queue_.reset();
    return std::move(fd_);
  }
  void reset() {
    if (fd_ && queue_ != nullptr) queue_->close(std::move(fd_));
    fd_.reset();
    queue_.reset();
  }

 private:
  Fd fd_;
  std::shared_ptr<ReaperQueue> queue_;
};

}  // namespace pvrdma
