// TlsStream: a connection inside TLS 1.3.
//
// Outgoing pieces become records of up to 16 KiB, straight from guest memory where they are long enough. What
// comes in is decrypted into a buffer of our own, as much as ready() asks for, and copied to guest memory
// from there: a decryption that fails must not have touched the guest. After kRecordsPerKey records the key
// of our direction changes.
//
// Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>

#include "base/fd.h"
#include "base/result.h"
#include "transport/tcp/stream.h"

struct ssl_ctx_st;  // OpenSSL's SSL_CTX

namespace pvrdma::transport::tcp {

// Far below the 2^24.5 full records that AES-GCM allows (RFC 8446, 5.5); 1 GiB.
inline constexpr std::uint64_t kRecordsPerKey = 65536;

enum class TlsRole : std::uint8_t { kClient, kServer };

// `socket` is a connected stream socket; `context` may be freed before the stream. Error: out of memory.
Result<std::unique_ptr<Stream>> make_tls_stream(Fd socket, ssl_ctx_st& context, TlsRole role);

}  // namespace pvrdma::transport::tcp
