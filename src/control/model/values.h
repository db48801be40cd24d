// Small values of the model as text, and what is allowed of them. Pure. Thread: any.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "control/config/config.h"

namespace pvrdma::control {

inline constexpr std::size_t kNameCharsMax = 64;

// Names of hosts, switches, port groups and VMs: [A-Za-z0-9._-], 1 to 64 characters, neither "." nor ".."
// (they become paths).
bool is_name(std::string_view text);
// "vmk0" … "vmk999".
bool is_vmk_name(std::string_view text);

// "52:54:00:12:34:51", lower case.
std::string mac_text(const Mac& mac);
// Either case. None: not six bytes.
std::optional<Mac> parse_mac_bytes(std::string_view text);
// The same. None also: zero, or a multicast address.
std::optional<Mac> parse_mac(std::string_view text);

std::string_view roce_text(Roce roce);  // "v1", "v2"
std::optional<Roce> parse_roce(std::string_view text);
std::string_view profile_text(Profile profile);  // "open", "esxi"
std::optional<Profile> parse_profile(std::string_view text);

// The version of a switch, "8.0.3": three numbers. Compares as versions do.
using DvsVersion = std::array<std::uint32_t, 3>;
std::optional<DvsVersion> parse_dvs_version(std::string_view text);

inline constexpr std::uint16_t kVlanMax = 4094;

// The whole of `text` as a decimal number without sign or leading zeros, up to `max`.
std::optional<std::uint32_t> parse_decimal(std::string_view text, std::uint32_t max);

}  // namespace pvrdma::control
