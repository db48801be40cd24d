#include "fabric/gid_address.h"

#include <cstring>
#include <netinet/in.h>

#include "base/mapped_address.h"

namespace pvrdma::fabric {

verbs::Gid to_gid(const IpAddress& address) {
  return {mapped_address(address)};
}

IpAddress to_address(const verbs::Gid& gid) {
  sockaddr_storage storage{};
  auto& address = reinterpret_cast<sockaddr_in6&>(storage);
  address.sin6_family = AF_INET6;
  std::memcpy(&address.sin6_addr, gid.bytes.data(), gid.bytes.size());
  return *IpAddress::from(storage);
}

std::vector<verbs::Gid> to_gids(const std::vector<IpAddress>& addresses) {
  std::vector<verbs::Gid> gids;
  for (const IpAddress& address : addresses) gids.push_back(to_gid(address));
  return gids;
}

}  // namespace pvrdma::fabric
