#include "base/ip_address.h"

#include <arpa/inet.h>
#include <cstring>
#include <fmt/core.h>
#include <netinet/in.h>

#include "base/mapped_address.h"
#include "base/whole_number.h"

namespace pvrdma {
namespace {

constexpr std::size_t kV4Bytes = 4;

}  // namespace

Result<IpAddress> IpAddress::parse(std::string_view text) {
  IpAddress address;
  const std::string copy(text);
  if (::inet_pton(AF_INET, copy.c_str(), address.raw_.data()) == 1) return address;
  address.raw_ = {};
  if (::inet_pton(AF_INET6, copy.c_str(), address.raw_.data()) == 1) {
    address.is_v6_ = true;
    return address;
  }
  return fail(ErrorKind::kInvalid,
              fmt::format("\"{}\" is not an IP address: write it as 192.168.1.5 or fd00::5", text));
}

Result<IpAddress> IpAddress::from(const sockaddr_storage& address) {
  IpAddress result;
  if (address.ss_family == AF_INET) {
    const auto& v4 = reinterpret_cast<const sockaddr_in&>(address);
    std::memcpy(result.raw_.data(), &v4.sin_addr, kV4Bytes);
    return result;
  }
  if (address.ss_family != AF_INET6) return fail(EAFNOSUPPORT, "the address is neither IPv4 nor IPv6");
  const auto& v6 = reinterpret_cast<const sockaddr_in6&>(address);
  if (std::memcmp(&v6.sin6_addr, kMappedPrefix.data(), kMappedPrefix.size()) == 0) {
    std::memcpy(result.raw_.data(), v6.sin6_addr.s6_addr + kMappedPrefix.size(), kV4Bytes);
    return result;
  }
  result.is_v6_ = true;
  std::memcpy(result.raw_.data(), &v6.sin6_addr, result.raw_.size());
  return result;
}

socklen_t IpAddress::to_sockaddr(std::uint16_t port, sockaddr_storage& out) const {
  out = {};
  if (is_v6_) {
    auto& v6 = reinterpret_cast<sockaddr_in6&>(out);
    v6.sin6_family = AF_INET6;
    v6.sin6_port = htons(port);
    std::memcpy(&v6.sin6_addr, raw_.data(), raw_.size());
    return sizeof(v6);
  }
  auto& v4 = reinterpret_cast<sockaddr_in&>(out);
  v4.sin_family = AF_INET;
  v4.sin_port = htons(port);
  std::memcpy(&v4.sin_addr, raw_.data(), kV4Bytes);
  return sizeof(v4);
}

std::string IpAddress::to_string() const {
  std::array<char, INET6_ADDRSTRLEN> text{};
  ::inet_ntop(family(), raw_.data(), text.data(), text.size());
  return text.data();
}

Result<IpNetwork> IpNetwork::parse(std::string_view text) {
  const std::size_t slash = text.find('/');
  const auto address = IpAddress::parse(text.substr(0, slash));
  if (!address) {
    return fail(ErrorKind::kInvalid,
                fmt::format("\"{}\" is not an IP address or network: write it as 192.168.1.5 or "
                            "192.168.1.0/24",
                            text));
  }
  IpNetwork network;
  network.address_ = *address;
  network.prefix_bits_ = address->bits();
  if (slash != std::string_view::npos) {
    const auto bits = whole_number<std::uint32_t>(text.substr(slash + 1));
    if (!bits || *bits > address->bits()) {
      return fail(ErrorKind::kInvalid,
                  fmt::format("\"{}\": the prefix after / must be 0 to {}", text, address->bits()));
    }
    network.prefix_bits_ = *bits;
  }
  // Two spellings of one network compare equal.
  std::array<std::uint8_t, 16> raw = address->raw();
  for (std::uint32_t bit = network.prefix_bits_; bit < address->bits(); ++bit) {
    raw[bit / 8] = static_cast<std::uint8_t>(raw[bit / 8] & ~(0x80U >> (bit % 8)));
  }
  std::array<char, INET6_ADDRSTRLEN> base{};
  ::inet_ntop(address->family(), raw.data(), base.data(), base.size());
  network.address_ = *IpAddress::parse(base.data());
  return network;
}

bool IpNetwork::contains(const IpAddress& address) const {
  if (address.is_v6() != address_.is_v6()) return false;
  for (std::uint32_t bit = 0; bit < prefix_bits_; ++bit) {
    const auto mask = static_cast<std::uint8_t>(0x80U >> (bit % 8));
    if ((address.raw()[bit / 8] & mask) != (address_.raw()[bit / 8] & mask)) return false;
  }
  return true;
}

std::string IpNetwork::to_string() const {
  if (prefix_bits_ == address_.bits()) return address_.to_string();
  return fmt::format("{}/{}", address_.to_string(), prefix_bits_);
}

}  // namespace pvrdma
