// PlainStream: a connection without TLS. Data goes straight between the socket and guest memory.
//
// Thread: shard-owned.
#pragma once

#include <memory>

#include "base/fd.h"
#include "transport/tcp/stream.h"

namespace pvrdma::transport::tcp {

// `socket` is a connected stream socket.
std::unique_ptr<Stream> make_plain_stream(Fd socket);

}  // namespace pvrdma::transport::tcp
