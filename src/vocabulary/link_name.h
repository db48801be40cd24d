// LinkName: an operator's name for the device or socket that carries the Ethernet frames of a RoCE link:
// "tap:pvroce0". Thread: values.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/words.h"

namespace pvrdma {

enum class LinkKind : std::uint8_t {
  kStream,  // a UNIX socket that speaks QEMU's -netdev stream
  kTap,     // a tap device that exists
  kXdp,     // an AF_XDP socket on a network device
};

template <>
inline constexpr std::array kWords<LinkKind>{Word{"stream", LinkKind::kStream}, Word{"tap", LinkKind::kTap},
                                             Word{"xdp", LinkKind::kXdp}};

struct LinkName {
  LinkKind kind = LinkKind::kTap;
  std::string name;  // an is_interface_name(), or a stream's absolute path, at most 107 bytes

  bool is_device() const { return kind != LinkKind::kStream; }
  std::string to_string() const;  // "tap:pvroce0"
  friend bool operator==(const LinkName&, const LinkName&) = default;
};

// Parses KIND:NAME. Error: a clause to put after the text; it says what is allowed.
Result<LinkName> parse_link_name(std::string_view text);

// Whether `text` is a network device's name that needs no quotes: 1 to 15 of [A-Za-z0-9._-], neither "." nor
// "..". The kernel allows more.
bool is_interface_name(std::string_view text);

}  // namespace pvrdma
