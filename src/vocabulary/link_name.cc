#include "vocabulary/link_name.h"

#include <fmt/core.h>

#include "vocabulary/name.h"

namespace pvrdma {
namespace {

constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un::sun_path without its NUL
constexpr std::size_t kInterfaceCharsMax = 15;

}  // namespace

std::string LinkName::to_string() const {
  return fmt::format("{}:{}", to_text(kind), name);
}

bool is_interface_name(std::string_view text) {
  return text.size() <= kInterfaceCharsMax && is_name(text);
}

Result<LinkName> parse_link_name(std::string_view text) {
  const std::size_t colon = text.find(':');
  const auto kind = from_text<LinkKind>(text.substr(0, colon));
  if (colon == std::string_view::npos || !kind) {
    return fail("is not a RoCE link: write tap:DEVICE, xdp:DEVICE or stream:PATH");
  }
  LinkName link{*kind, std::string(text.substr(colon + 1))};
  if (link.is_device()) {
    if (is_interface_name(link.name)) return link;
    return fail(
        fmt::format("names no network device: give 1 to {} letters, digits, '.', '_' and '-' after {}:",
                    kInterfaceCharsMax, to_text(*kind)));
  }
  if (link.name.starts_with('/') && link.name.size() <= kSocketPathBytesMax &&
      link.name.find('\0') == std::string::npos) {
    return link;
  }
  return fail(fmt::format("names no socket: give an absolute path of at most {} bytes after stream:",
                          kSocketPathBytesMax));
}

}  // namespace pvrdma
