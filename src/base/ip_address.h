// IpAddress and IpNetwork: IPv4 and IPv6 addresses as values. Thread: values.
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>

#include "base/result.h"

namespace pvrdma {

class IpAddress {
 public:
  IpAddress() = default;  // 0.0.0.0

  // "192.168.1.5", "fd00::5". Error: the text is not an IPv4 or IPv6 address.
  static Result<IpAddress> parse(std::string_view text);
  // An IPv4-mapped IPv6 address becomes the IPv4 address it means. Error: another family.
  static Result<IpAddress> from(const sockaddr_storage& address);

  bool is_v6() const { return is_v6_; }
  int family() const { return is_v6_ ? AF_INET6 : AF_INET; }
  std::uint32_t bits() const { return is_v6_ ? 128 : 32; }
  // In network order. IPv4 uses the first 4 bytes.
  const std::array<std::uint8_t, 16>& raw() const { return raw_; }

  // Writes the form that bind() and connect() take, and returns its length.
  socklen_t to_sockaddr(std::uint16_t port, sockaddr_storage& out) const;
  std::string to_string() const;

  friend auto operator<=>(const IpAddress&, const IpAddress&) = default;

 private:
  bool is_v6_ = false;
  std::array<std::uint8_t, 16> raw_{};
};

// An address and the length of its prefix in bits.
class IpNetwork {
 public:
  IpNetwork() = default;

  // "10.0.0.0/8", or an address, which is a network of one address. Errors: an invalid address; a prefix that
  // is too long.
  static Result<IpNetwork> parse(std::string_view text);

  bool contains(const IpAddress& address) const;
  std::string to_string() const;  // without the prefix length if it is a single address

  friend auto operator<=>(const IpNetwork&, const IpNetwork&) = default;

 private:
  IpAddress address_;  // bits beyond the prefix are 0
  std::uint32_t prefix_bits_ = 32;
};

}  // namespace pvrdma
