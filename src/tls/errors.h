// OpenSSL's errors as clauses for people. Thread: any; each thread has its own error queue in OpenSSL.
#pragma once

#include <openssl/types.h>
#include <string>
#include <string_view>

namespace pvrdma::tls {

// `text` with everything except visible ASCII and spaces replaced. A peer chose the text, and it goes to a
// log.
std::string printable(std::string_view text);

// "2031-05-01 12:00:00 UTC".
std::string date_of(const ASN1_TIME* time);

// Why a certificate of the peer's chain was refused. For use inside the verify callback of `context`.
std::string describe_refused_certificate(X509_STORE_CTX* context);

// Describes the oldest error in the queue, of a handshake, read or write of `ssl`. Empties the queue.
std::string describe_error(const SSL& ssl);

// The reason of the oldest error in the queue in OpenSSL's words. Empties the queue.
std::string openssl_reason();

}  // namespace pvrdma::tls
