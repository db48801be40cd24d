// Small values of the model as text, and their valid ranges. Pure. Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

namespace pvrdma::control {

// "vmk0" … "vmk999".
bool is_vmk_name(std::string_view text);

// The version of a switch, "8.0.3": three numbers. Compares like a version.
using DvsVersion = std::array<std::uint32_t, 3>;
std::optional<DvsVersion> parse_dvs_version(std::string_view text);

// Parses all of `text` as a decimal number up to `max`, without sign or leading zeros.
std::optional<std::uint32_t> parse_decimal(std::string_view text, std::uint32_t max);

}  // namespace pvrdma::control
