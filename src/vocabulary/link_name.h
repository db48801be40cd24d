// LinkName: where the Ethernet frames of a RoCE link go in and out, as an operator names it: "tap:pvroce0".
// Thread: values.
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
  std::string name;  // of the device, is_interface_name(); of a stream the absolute path, at most 107 bytes

  bool is_device() const { return kind != LinkKind::kStream; }
  std::string to_string() const;  // "tap:pvroce0"
  friend bool operator==(const LinkName&, const LinkName&) = default;
};

// The whole of `text` as KIND:NAME. Error: a clause that follows the text, with what is allowed.
Result<LinkName> parse_link_name(std::string_view text);

// A network device's, of those the kernel allows such that need no quotes: 1 to 15 of [A-Za-z0-9._-], neither
// "." nor "..".
bool is_interface_name(std::string_view text);

}  // namespace pvrdma
