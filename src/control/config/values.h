// The values of a configuration's keys: from a Setting, which is what a person wrote, to a value in its
// range.
//
// Each error is a Setting's subject ("FILE:12: [[adapter]] hw = 12"), what is wrong with it and what is
// allowed. Thread: any thread.
#pragma once

#include <cstdint>
#include <fmt/core.h>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/log.h"
#include "base/result.h"
#include "base/time.h"
#include "control/config/config.h"
#include "control/config/setting.h"

namespace pvrdma::control {

// "FILE:12: [[adapter]] " or "--adapter …: ".
std::string prefix(const Section& section, std::string_view where);

// "FILE:12: [[adapter]] mac = "…" WHY". `section` is the one that `setting` stands in.
Failure wrong(const Section& section, const Setting& setting, std::string_view why);

// Error: a key that is not among `allowed`.
Result<void> check_keys(const Section& section, std::span<const std::string_view> allowed);

// The value of a key that must be there. `example` is how the line would look.
template <typename T>
Result<T> required(const Section& section, std::string_view key, std::string_view example,
                   Result<T> (*parse)(const Section&, const Setting&)) {
  const Setting* setting = section.find(key);
  if (setting == nullptr) {
    return fail(fmt::format("{}lacks {}: add {}", prefix(section, section.where), key, example));
  }
  return parse(section, *setting);
}

Result<std::string> parse_text(const Section& section, const Setting& setting);
Result<std::vector<std::string>> parse_texts(const Section& section, const Setting& setting);
Result<std::uint32_t> parse_number(const Section& section, const Setting& setting, std::uint32_t min,
                                   std::uint32_t max);
// Absolute.
Result<std::string> parse_path(const Section& section, const Setting& setting);
Result<std::string> parse_name(const Section& section, const Setting& setting);
Result<std::string> parse_socket(const Section& section, const Setting& setting);
Result<Mac> parse_mac(const Section& section, const Setting& setting);
Result<HardwareVersion> parse_version(const Section& section, const Setting& setting);
// A null `setting` gives the hardware version's default.
Result<RoceVersion> parse_roce(const Section& section, const Setting* setting, HardwareVersion version);
Result<Profile> parse_profile(const Section& section, const Setting& setting);
Result<log::Level> parse_log_level(const Section& section, const Setting& setting);
Result<Duration> parse_spin(const Section& section, const Setting& setting);

}  // namespace pvrdma::control
