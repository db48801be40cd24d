#include "verbs/ids.h"

#include <arpa/inet.h>

namespace pvrdma::verbs {
namespace {

constexpr std::uint8_t kUniversalBit = 2;  // of a MAC's first byte; EUI-64 identifiers have it inverted

}  // namespace

std::string Gid::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  return inet_ntop(AF_INET6, bytes.data(), text.data(), text.size()) == nullptr ? std::string() : text.data();
}

std::optional<Mac> mac_in(const Gid& gid) {
  const auto& b = gid.bytes;
  if (b[11] != 0xff || b[12] != 0xfe || gid.is_ipv4_mapped()) return std::nullopt;
  const auto first = static_cast<std::uint8_t>(b[8] ^ kUniversalBit);
  return Mac{{first, b[9], b[10], b[13], b[14], b[15]}};
}

}  // namespace pvrdma::verbs
