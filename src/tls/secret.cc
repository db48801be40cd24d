#include "tls/secret.h"

#include <openssl/crypto.h>

namespace pvrdma::tls {

bool is_same_secret(std::string_view a, std::string_view b) {
  return a.size() == b.size() && CRYPTO_memcmp(a.data(), b.data(), a.size()) == 0;
}

}  // namespace pvrdma::tls
