// HostNetwork: what this host's kernel knows of its network: by which next hop an address is reached, and the
// next hop's MAC address. RtnetlinkNetwork asks the kernel (rtnetlink(7)).
//
// Thread: one at a time; the kernel answers at once.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>

#include "abi/endian.h"
#include "base/fd.h"

namespace pvrdma::standin {

struct NextHop {
  abi::Gid address{};           // of the destination or of the router; an IPv4 address is mapped
  std::uint32_t interface = 0;  // its index
  bool is_router = false;

  friend auto operator<=>(const NextHop&, const NextHop&) = default;
};

class HostNetwork {
 public:
  virtual ~HostNetwork() = default;
  // Nothing: there is no route, or the address is the host's own.
  virtual std::optional<NextHop> route_to(const abi::Gid& address) = 0;
  // Nothing: the kernel does not know it now. One that it has not heard of for long is confirmed meanwhile,
  // because the kernel does not see the traffic of the adapter.
  virtual std::optional<abi::Mac> mac_of(const NextHop& hop) = 0;
  // Makes the kernel ask the network for the MAC address.
  virtual void ask(const NextHop& hop) = 0;
};

class RtnetlinkNetwork final : public HostNetwork {
 public:
  // Makes the sockets, so before the process is confined. Where the host refuses them, there are no routes.
  RtnetlinkNetwork();

  std::optional<NextHop> route_to(const abi::Gid& address) override;
  std::optional<abi::Mac> mac_of(const NextHop& hop) override;
  // An empty datagram to the discard port, as libibverbs sends it for the same purpose: an ordinary user may
  // not ask in another way.
  void ask(const NextHop& hop) override;

 private:
  std::span<const std::byte> call(std::span<const std::byte> request, std::uint16_t answer_type);

  Fd netlink_;
  Fd udp4_;
  Fd udp6_;
  std::uint32_t sequence_ = 0;
  std::array<std::byte, 8192> answer_{};
};

}  // namespace pvrdma::standin
