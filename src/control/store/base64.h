// Base64 (RFC 4648 section 4), as etcd's JSON gateway writes keys and values. Thread: any thread.
#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace pvrdma::control {

std::string to_base64(std::string_view bytes);

// Empty if the text has a character outside the alphabet, a wrong length or padding, or remaining bits that
// are not zero.
std::optional<std::string> from_base64(std::string_view text);

}  // namespace pvrdma::control
