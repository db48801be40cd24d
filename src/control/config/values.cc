#include "control/config/values.h"

#include <algorithm>
#include <array>
#include <fmt/core.h>
#include <fmt/format.h>

#include "base/name.h"

namespace pvrdma::control {
namespace {

constexpr std::size_t kSocketPathBytesMax = 107;  // sockaddr_un::sun_path without its NUL
constexpr std::int64_t kSpinUsMax = 1'000'000;

std::string shown_value(const Setting& setting) {
  if (const auto* text = std::get_if<std::string>(&setting.value)) return fmt::format("\"{}\"", *text);
  if (const auto* number = std::get_if<std::int64_t>(&setting.value)) return fmt::format("{}", *number);
  if (const auto* texts = std::get_if<std::vector<std::string>>(&setting.value)) {
    return texts->empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(*texts, "\", \""));
  }
  return fmt::format("({})", std::get<OtherValue>(setting.value).kind);
}

}  // namespace

std::string prefix(const Section& section, std::string_view where) {
  return fmt::format("{}: {}{}", where, section.title, section.title.empty() ? "" : " ");
}

Failure wrong(const Section& section, const Setting& setting, std::string_view why) {
  return fail(
      fmt::format("{}{} = {} {}", prefix(section, setting.where), setting.shown, shown_value(setting), why));
}

Result<void> check_keys(const Section& section, std::span<const std::string_view> allowed) {
  for (const Setting& setting : section.settings) {
    if (std::find(allowed.begin(), allowed.end(), setting.key) == allowed.end()) {
      return fail(fmt::format("{}unknown key {}: allowed are {}", prefix(section, setting.where),
                              setting.shown, fmt::join(allowed, ", ")));
    }
  }
  return {};
}

Result<std::string> parse_text(const Section& section, const Setting& setting) {
  if (const auto* text = std::get_if<std::string>(&setting.value)) return *text;
  return wrong(section, setting, "has the wrong type: it takes a string in quotes");
}

Result<std::vector<std::string>> parse_texts(const Section& section, const Setting& setting) {
  if (const auto* texts = std::get_if<std::vector<std::string>>(&setting.value)) return *texts;
  return wrong(section, setting,
               "has the wrong type: it takes a list of strings, such as [\"eth1\", \"eth2\"]");
}

Result<std::uint32_t> parse_number(const Section& section, const Setting& setting, std::uint32_t min,
                                   std::uint32_t max) {
  const auto* number = std::get_if<std::int64_t>(&setting.value);
  if (number == nullptr || *number < min || *number > max) {
    return wrong(section, setting, fmt::format("is not allowed: it takes a number from {} to {}", min, max));
  }
  return static_cast<std::uint32_t>(*number);
}

Result<std::string> parse_path(const Section& section, const Setting& setting) {
  auto path = parse_text(section, setting);
  if (!path) return path;
  if (!path->starts_with('/') || path->find('\0') != std::string::npos) {
    return wrong(section, setting, "is no absolute path: begin it with /");
  }
  return path;
}

Result<std::string> parse_name(const Section& section, const Setting& setting) {
  auto name = parse_text(section, setting);
  if (!name) return name;
  if (!is_name(*name)) {
    return wrong(section, setting, fmt::format("is no name: allowed are {}", kNameRule));
  }
  return name;
}

Result<std::string> parse_socket(const Section& section, const Setting& setting) {
  auto path = parse_text(section, setting);
  if (!path) return path;
  if (path->empty() || path->find('\0') != std::string::npos) {
    return wrong(section, setting, "is no path: give the socket a file name");
  }
  if (path->size() > kSocketPathBytesMax) {
    return wrong(section, setting,
                 fmt::format("is too long: it has {} bytes, and a UNIX socket's path has at most {}",
                             path->size(), kSocketPathBytesMax));
  }
  return path;
}

Result<Mac> parse_mac(const Section& section, const Setting& setting) {
  const auto text = parse_text(section, setting);
  if (!text) return Failure(text.error());
  const auto mac = Mac::parse(*text);
  if (!mac) return wrong(section, setting, "is no MAC address: write six bytes such as 52:54:00:12:34:51");
  if (mac->is_zero())
    return wrong(section, setting, "is the zero address: give the MAC of the VM's vmxnet3 adapter");
  if (mac->is_multicast()) {
    return wrong(section, setting,
                 "is a multicast address: give the MAC of the VM's vmxnet3 adapter, its first byte is even");
  }
  return *mac;
}

Result<HardwareVersion> parse_version(const Section& section, const Setting& setting) {
  const auto* number = std::get_if<std::int64_t>(&setting.value);
  const auto version = number == nullptr ? std::nullopt : parse_hardware_version(*number);
  if (version) return *version;
  std::vector<std::uint32_t> allowed;
  for (const HardwareVersion each : kHardwareVersions) allowed.push_back(number_of(each));
  return wrong(section, setting,
               fmt::format("is no hardware version with PVRDMA: allowed are {}", fmt::join(allowed, ", ")));
}

Result<RoceVersion> parse_roce(const Section& section, const Setting* setting, HardwareVersion version) {
  if (setting == nullptr) return default_roce(version);
  const auto text = parse_text(section, *setting);
  if (!text) return Failure(text.error());
  const auto roce = from_text<RoceVersion>(*text);
  if (!roce) return wrong(section, *setting, "is no RoCE version: allowed are v1, v2");
  if (!offers_roce(version, *roce)) {
    return wrong(section, *setting,
                 fmt::format("needs hardware version {} or later and this adapter has {}: use v1 or a later "
                             "hardware version",
                             number_of(kFirstWithRoceV2), number_of(version)));
  }
  return *roce;
}

Result<Profile> parse_profile(const Section& section, const Setting& setting) {
  const auto text = parse_text(section, setting);
  if (!text) return Failure(text.error());
  const auto profile = from_text<Profile>(*text);
  if (!profile) return wrong(section, setting, "is no profile: allowed are open, esxi");
  return *profile;
}

Result<log::Level> parse_log_level(const Section& section, const Setting& setting) {
  const auto text = parse_text(section, setting);
  if (!text) return Failure(text.error());
  if (*text == "debug") return log::Level::kDebug;
  if (*text == "info") return log::Level::kInfo;
  if (*text == "warn") return log::Level::kWarn;
  if (*text == "error") return log::Level::kError;
  return wrong(section, setting, "is no log level: allowed are debug, info, warn, error");
}

Result<Duration> parse_spin(const Section& section, const Setting& setting) {
  if (const auto* text = std::get_if<std::string>(&setting.value); text != nullptr && *text == "forever") {
    return Duration::max();
  }
  const auto* number = std::get_if<std::int64_t>(&setting.value);
  if (number == nullptr || *number < 0 || *number > kSpinUsMax) {
    return wrong(
        section, setting,
        fmt::format("is no spinning time: allowed are 0 to {} microseconds, or \"forever\"", kSpinUsMax));
  }
  return std::chrono::microseconds(*number);
}

}  // namespace pvrdma::control
