// TlsStream: a connection inside TLS (tls::Stream), as the transport reads and writes it.
//
// Outgoing pieces become records of up to 16 KiB, straight from guest memory where they are long enough. What
// comes in is decrypted into a buffer of our own, as much as ready() asks for, and copied to guest memory
// from there: a decryption that fails must not have touched the guest.
//
// Thread: shard-owned.
#pragma once

#include <memory>

#include "tls/stream.h"
#include "transport/tcp/stream.h"

namespace pvrdma::transport::tcp {

// `stream` has not shaken hands.
std::unique_ptr<Stream> make_tls_stream(std::unique_ptr<tls::Stream> stream);

}  // namespace pvrdma::transport::tcp
