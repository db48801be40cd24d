// TlsStream: a connection inside TLS (tls::Stream), with the interface that the transport uses.
//
// Outgoing pieces become records of up to 16 KiB, straight from guest memory if they are long enough. Input
// is decrypted into a buffer, as far as ready() needs it, and then copied to guest memory: a decryption that
// fails must not change the guest's memory.
//
// Thread: shard-owned.
#pragma once

#include <memory>

#include "tls/stream.h"
#include "transport/tcp/stream.h"

namespace pvrdma::transport::tcp {

// `stream` has not begun its handshake.
std::unique_ptr<Stream> make_tls_stream(std::unique_ptr<tls::Stream> stream);

}  // namespace pvrdma::transport::tcp
