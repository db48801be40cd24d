#include "standin/gid_list.h"

#include <algorithm>

#include "abi/eui64.h"
#include "base/mapped_address.h"

namespace pvrdma::standin {

abi::Gid link_local_gid(const abi::Mac& mac) {
  abi::Gid gid{{0xfe, 0x80}};
  std::ranges::copy(abi::eui64(mac), gid.raw.begin() + 8);
  return gid;
}

abi::Gid gid_of(const IpAddress& address) {
  return {mapped_address(address)};
}

std::optional<abi::Mac> mac_of_link_local(const abi::Gid& gid) {
  const auto& g = gid.raw;
  if (!is_link_local(g) || g[11] != 0xff || g[12] != 0xfe) return std::nullopt;
  return abi::Mac{{static_cast<std::uint8_t>(g[8] ^ 2), g[9], g[10], g[13], g[14], g[15]}};
}

}  // namespace pvrdma::standin
