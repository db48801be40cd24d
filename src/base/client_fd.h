// ClientFd: owns a descriptor that a stranger handed over, or that may hold such ones. When it ends it goes
// to a ReaperQueue, because closing it may take as long as the stranger likes; without a queue (tests, tools)
// it is closed in place. Thread: a value; not shared. It ends on the thread that fills its queue.
#pragma once

#include <memory>
#include <utility>

#include "base/fd.h"
#include "base/reaper.h"

namespace pvrdma {

class ClientFd {
 public:
  ClientFd() = default;
  // A descriptor of our own making needs no queue: hence no `explicit`.
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
