#include "standin/host_network.h"

#include <algorithm>
#include <cstring>
#include <linux/neighbour.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include "base/mapped_address.h"

namespace pvrdma::standin {
namespace {

constexpr std::uint16_t kDiscardPort = 9;
constexpr std::uint16_t kUsable = NUD_REACHABLE | NUD_STALE | NUD_DELAY | NUD_PROBE | NUD_PERMANENT;

// The bytes of the address as its family has them: 4 or 16.
std::span<const std::uint8_t> address_bytes(const abi::Gid& address) {
  const std::span<const std::uint8_t> all(address.raw);
  return is_mapped(address.raw) ? all.subspan(kMappedPrefix.size()) : all;
}

std::uint8_t family_of(const abi::Gid& address) {
  return is_mapped(address.raw) ? AF_INET : AF_INET6;
}

// A request with one attribute, an address.
template <typename Body>
struct AddressRequest {
  nlmsghdr header{};
  Body body{};
  rtattr attribute{};
  std::array<std::uint8_t, 16> address{};

  AddressRequest(std::uint16_t type, std::uint16_t attribute_type, const abi::Gid& gid) {
    const auto bytes = address_bytes(gid);
    std::ranges::copy(bytes, address.begin());
    attribute.rta_type = attribute_type;
    attribute.rta_len = static_cast<std::uint16_t>(sizeof(rtattr) + bytes.size());
    header.nlmsg_len =
        static_cast<std::uint32_t>(sizeof(nlmsghdr) + sizeof(Body) + sizeof(rtattr) + bytes.size());
    header.nlmsg_type = type;
    header.nlmsg_flags = NLM_F_REQUEST;
  }
  std::span<const std::byte> bytes() const {
    return std::as_bytes(std::span(this, 1)).first(header.nlmsg_len);
  }
};
static_assert(sizeof(rtmsg) % NLMSG_ALIGNTO == 0 && sizeof(ndmsg) % NLMSG_ALIGNTO == 0);

// The value of an attribute of a message whose struct is `Body`; empty: it has none.
template <typename Body>
std::span<const std::byte> attribute_of(std::span<const std::byte> message, std::uint16_t type) {
  std::span<const std::byte> rest = message.subspan(std::min(message.size(), sizeof(Body)));
  while (rest.size() >= sizeof(rtattr)) {
    rtattr attribute;
    std::memcpy(&attribute, rest.data(), sizeof(attribute));
    if (attribute.rta_len < sizeof(rtattr) || attribute.rta_len > rest.size()) break;
    if ((attribute.rta_type & NLA_TYPE_MASK) == type)
      return rest.subspan(sizeof(rtattr), attribute.rta_len - sizeof(rtattr));
    rest = rest.subspan(std::min<std::size_t>(rest.size(), RTA_ALIGN(attribute.rta_len)));
  }
  return {};
}

// The address of a router. IPv4's routes may have one of IPv6 (RTA_VIA), which is not looked for.
std::optional<abi::Gid> gateway_of(std::span<const std::byte> message) {
  const auto bytes = attribute_of<rtmsg>(message, RTA_GATEWAY);
  abi::Gid gateway;
  if (bytes.size() == 4) {
    gateway.raw = mapped_ipv4(bytes.data());
  } else if (bytes.size() == gateway.raw.size()) {
    std::memcpy(gateway.raw.data(), bytes.data(), bytes.size());
  } else {
    return std::nullopt;
  }
  return gateway;
}

}  // namespace

RtnetlinkNetwork::RtnetlinkNetwork()
    : netlink_(::socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC | SOCK_NONBLOCK, NETLINK_ROUTE)),
      udp4_(::socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)),
      udp6_(::socket(AF_INET6, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {}

// The answer's struct and attributes; empty: an error, or nothing. The kernel has answered when it has taken
// the request.
std::span<const std::byte> RtnetlinkNetwork::call(std::span<const std::byte> request,
                                                  std::uint16_t answer_type) {
  if (::send(netlink_.get(), request.data(), request.size(), MSG_DONTWAIT) < 0) return {};
  while (true) {
    const ssize_t count = ::recv(netlink_.get(), answer_.data(), answer_.size(), MSG_DONTWAIT);
    nlmsghdr header;
    if (count < static_cast<ssize_t>(sizeof(header))) return {};
    std::memcpy(&header, answer_.data(), sizeof(header));
    if (header.nlmsg_seq != sequence_) continue;  // of an earlier request
    if (header.nlmsg_type != answer_type || header.nlmsg_len > static_cast<std::size_t>(count) ||
        header.nlmsg_len < sizeof(header))
      return {};
    return std::span(answer_).first(header.nlmsg_len).subspan(sizeof(header));
  }
}

std::optional<NextHop> RtnetlinkNetwork::route_to(const abi::Gid& address) {
  AddressRequest<rtmsg> request(RTM_GETROUTE, RTA_DST, address);
  request.header.nlmsg_seq = ++sequence_;
  request.body.rtm_family = family_of(address);
  request.body.rtm_dst_len = static_cast<std::uint8_t>(8 * address_bytes(address).size());
  const auto answer = call(request.bytes(), RTM_NEWROUTE);
  rtmsg route;
  if (answer.size() < sizeof(route)) return std::nullopt;
  std::memcpy(&route, answer.data(), sizeof(route));
  const auto interface = attribute_of<rtmsg>(answer, RTA_OIF);
  NextHop hop;
  if (route.rtm_type != RTN_UNICAST || interface.size() != sizeof(hop.interface)) return std::nullopt;
  std::memcpy(&hop.interface, interface.data(), sizeof(hop.interface));
  const auto gateway = gateway_of(answer);
  hop.address = gateway.value_or(address);
  hop.is_router = gateway.has_value();
  return hop;
}

std::optional<abi::Mac> RtnetlinkNetwork::mac_of(const NextHop& hop) {
  AddressRequest<ndmsg> request(RTM_GETNEIGH, NDA_DST, hop.address);
  request.header.nlmsg_seq = ++sequence_;
  request.body.ndm_family = family_of(hop.address);
  request.body.ndm_ifindex = static_cast<std::int32_t>(hop.interface);
  const auto answer = call(request.bytes(), RTM_NEWNEIGH);
  ndmsg neighbor;
  if (answer.size() < sizeof(neighbor)) return std::nullopt;
  std::memcpy(&neighbor, answer.data(), sizeof(neighbor));
  const auto found = attribute_of<ndmsg>(answer, NDA_LLADDR);
  abi::Mac mac;
  if ((neighbor.ndm_state & kUsable) == 0 || found.size() != mac.raw.size()) return std::nullopt;
  std::memcpy(mac.raw.data(), found.data(), found.size());
  if ((neighbor.ndm_state & NUD_STALE) != 0) ask(hop);
  return mac.is_unicast() ? std::optional(mac) : std::nullopt;
}

void RtnetlinkNetwork::ask(const NextHop& hop) {
  const auto bytes = address_bytes(hop.address);
  if (bytes.size() == 4) {
    sockaddr_in to{};
    to.sin_family = AF_INET;
    to.sin_port = htons(kDiscardPort);
    std::memcpy(&to.sin_addr, bytes.data(), bytes.size());
    (void)::sendto(udp4_.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to),
                   sizeof(to));
    return;
  }
  sockaddr_in6 to{};
  to.sin6_family = AF_INET6;
  to.sin6_port = htons(kDiscardPort);
  std::memcpy(&to.sin6_addr, bytes.data(), bytes.size());
  if (is_link_local(hop.address.raw)) to.sin6_scope_id = hop.interface;
  (void)::sendto(udp6_.get(), nullptr, 0, MSG_DONTWAIT | MSG_NOSIGNAL, reinterpret_cast<sockaddr*>(&to),
                 sizeof(to));
}

}  // namespace pvrdma::standin
