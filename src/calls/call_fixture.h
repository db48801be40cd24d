// Makes calls from other hosts without a network.
#pragma once

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <sys/socket.h>

#include "calls/conversation.h"
#include "calls/incoming_calls.h"
#include "transport/tcp/call.h"
#include "transport/tcp/plain_stream.h"

namespace pvrdma::calls {

// Hands a call from `peer` to `calls`, and returns the caller's end of it. This host is called esx-02.
inline std::unique_ptr<Conversation> call_of(IncomingCalls& calls, const std::string& peer) {
  int fds[2] = {-1, -1};
  EXPECT_EQ(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, fds), 0);
  calls.take(transport::tcp::make_plain_stream(Fd(fds[0])), peer);
  return std::make_unique<Conversation>(
      std::make_unique<transport::tcp::Call>(transport::tcp::make_plain_stream(Fd(fds[1])), "esx-02"),
      "esx-02");
}

}  // namespace pvrdma::calls
