#include "control/model/values.h"

#include <algorithm>
#include <charconv>
#include <fmt/core.h>
#include <system_error>

namespace pvrdma::control {
namespace {

constexpr std::uint32_t kVmkIndexMax = 999;
constexpr std::uint32_t kDvsVersionPartMax = 99;
constexpr std::string_view kVmkPrefix = "vmk";

bool is_name_char(char c) {
  return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9') || c == '.' || c == '_' ||
         c == '-';
}

}  // namespace

bool is_name(std::string_view text) {
  return !text.empty() && text.size() <= kNameCharsMax && text != "." && text != ".." &&
         std::all_of(text.begin(), text.end(), is_name_char);
}

bool is_vmk_name(std::string_view text) {
  return text.starts_with(kVmkPrefix) && parse_decimal(text.substr(kVmkPrefix.size()), kVmkIndexMax);
}

std::string mac_text(const Mac& mac) {
  return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac[0], mac[1], mac[2], mac[3], mac[4],
                     mac[5]);
}

std::optional<Mac> parse_mac_bytes(std::string_view text) {
  Mac mac{};
  if (text.size() != 3 * mac.size() - 1) return std::nullopt;
  for (std::size_t i = 0; i < mac.size(); ++i) {
    const char* digits = text.data() + 3 * i;
    const auto [end, error] = std::from_chars(digits, digits + 2, mac[i], 16);
    if (error != std::errc{} || end != digits + 2) return std::nullopt;
    if (i + 1 < mac.size() && digits[2] != ':') return std::nullopt;
  }
  return mac;
}

std::optional<Mac> parse_mac(std::string_view text) {
  const auto mac = parse_mac_bytes(text);
  const bool unicast = mac && *mac != Mac{} && (mac->front() & 1) == 0;
  return unicast ? mac : std::nullopt;
}

std::string_view roce_text(Roce roce) {
  return roce == Roce::kV1 ? "v1" : "v2";
}

std::optional<Roce> parse_roce(std::string_view text) {
  if (text == "v1") return Roce::kV1;
  if (text == "v2") return Roce::kV2;
  return std::nullopt;
}

std::string_view profile_text(Profile profile) {
  return profile == Profile::kEsxi ? "esxi" : "open";
}

std::optional<Profile> parse_profile(std::string_view text) {
  if (text == "open") return Profile::kOpen;
  if (text == "esxi") return Profile::kEsxi;
  return std::nullopt;
}

std::optional<DvsVersion> parse_dvs_version(std::string_view text) {
  DvsVersion version{};
  for (std::size_t i = 0; i < version.size(); ++i) {
    const bool last = i + 1 == version.size();
    const std::size_t dot = last ? text.size() : text.find('.');
    if (dot == std::string_view::npos) return std::nullopt;
    const auto number = parse_decimal(text.substr(0, dot), kDvsVersionPartMax);
    if (!number) return std::nullopt;
    version[i] = *number;
    text.remove_prefix(last ? dot : dot + 1);
  }
  return version;
}

std::optional<std::uint32_t> parse_decimal(std::string_view text, std::uint32_t max) {
  if (text.empty() || (text.size() > 1 && text.front() == '0')) return std::nullopt;
  std::uint32_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc{} || end != text.data() + text.size() || number > max) return std::nullopt;
  return number;
}

}  // namespace pvrdma::control
