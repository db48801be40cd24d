#include "verbs/ids.h"

#include <arpa/inet.h>

namespace pvrdma::verbs {

std::string Gid::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, bytes.data(), text.data(), text.size()) == nullptr ? std::string() : text.data();
}

}  // namespace pvrdma::verbs
