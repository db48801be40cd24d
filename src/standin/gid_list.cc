#include "standin/gid_list.h"

#include <algorithm>

namespace pvrdma::standin {

abi::Gid link_local_gid(const abi::Mac& mac) {
  const auto& m = mac.raw;
  return {{0xfe, 0x80, 0, 0, 0, 0, 0, 0, static_cast<std::uint8_t>(m[0] ^ 2), m[1], m[2], 0xff, 0xfe, m[3],
           m[4], m[5]}};
}

abi::Gid gid_of(const IpAddress& address) {
  abi::Gid gid;
  if (address.is_v6()) {
    gid.raw = address.raw();
    return gid;
  }
  gid.raw[10] = gid.raw[11] = 0xff;
  std::copy_n(address.raw().begin(), 4, gid.raw.begin() + 12);
  return gid;
}

abi::Mac mac_of(const abi::Gid& gid) {
  const auto& g = gid.raw;
  const bool is_link_local = g[0] == 0xfe && g[1] == 0x80 && g[11] == 0xff && g[12] == 0xfe;
  if (is_link_local) return {{static_cast<std::uint8_t>(g[8] ^ 2), g[9], g[10], g[13], g[14], g[15]}};
  return {{0x02, 0x00, g[12], g[13], g[14], g[15]}};
}

}  // namespace pvrdma::standin
