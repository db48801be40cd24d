// LingeringSocket: a descriptor whose close() does not return. It is a TCP socket over loopback with unsent
// data and SO_LINGER, and its other end reads nothing until let_go(). Thread: the test's.
#pragma once

#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <vector>

#include "base/check.h"
#include "base/fd.h"

namespace pvrdma::test {

class LingeringSocket {
 public:
  LingeringSocket() {
    const Fd listener(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    sockaddr_in where{};
    where.sin_family = AF_INET;
    where.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(where);
    auto* const address = reinterpret_cast<sockaddr*>(&where);
    const int small = 4096;
    ::setsockopt(listener.get(), SOL_SOCKET, SO_RCVBUF, &small, sizeof(small));
    PVRDMA_CHECK(::bind(listener.get(), address, length) == 0 && ::listen(listener.get(), 1) == 0 &&
                     ::getsockname(listener.get(), address, &length) == 0,
                 "a listener on loopback");
    lingers_ = Fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0));
    PVRDMA_CHECK(::connect(lingers_.get(), address, length) == 0, "a connection on loopback");
    other_end_ = Fd(::accept4(listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
    const linger patience{.l_onoff = 1, .l_linger = 30};
    ::setsockopt(lingers_.get(), SOL_SOCKET, SO_LINGER, &patience, sizeof(patience));
    const int flags = ::fcntl(lingers_.get(), F_GETFL);
    ::fcntl(lingers_.get(), F_SETFL, flags | O_NONBLOCK);
    const std::vector<char> data(1 << 16);
    while (::send(lingers_.get(), data.data(), data.size(), MSG_NOSIGNAL) > 0) {
    }
    ::fcntl(lingers_.get(), F_SETFL, flags);
  }

  int get() const { return lingers_.get(); }
  Fd take() { return std::move(lingers_); }
  // Closes the descriptor after it was sent elsewhere. The socket is still open there, so this close() does
  // not linger.
  void forget() { lingers_.reset(); }
  // Closes the other end, so a close() in progress returns.
  void let_go() { other_end_.reset(); }

 private:
  Fd lingers_;
  Fd other_end_;
};

}  // namespace pvrdma::test
