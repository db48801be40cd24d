// What OpenSSL says, as a clause for a person. Thread: any; OpenSSL's error queue is the thread's own.
#pragma once

#include <openssl/types.h>
#include <string>
#include <string_view>

namespace pvrdma::tls {

// `text` with all but visible ASCII and spaces replaced: a peer chose it, and it goes to a log.
std::string printable(std::string_view text);

// "2031-05-01 12:00:00 UTC".
std::string date_of(const ASN1_TIME* time);

// Why a certificate of the peer's chain was refused; of a store context inside its verify callback.
std::string describe_refused_certificate(X509_STORE_CTX* context);

// The oldest error in the queue, of a handshake, read or write of `ssl`. Empties the queue.
std::string describe_error(const SSL& ssl);

// The reason of the oldest error in the queue as OpenSSL words it. Empties the queue.
std::string openssl_reason();

}  // namespace pvrdma::tls
