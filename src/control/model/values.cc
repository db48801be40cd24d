#include "control/model/values.h"

#include "base/whole_number.h"

namespace pvrdma::control {
namespace {

constexpr std::uint32_t kVmkIndexMax = 999;
constexpr std::uint32_t kDvsVersionPartMax = 99;
constexpr std::string_view kVmkPrefix = "vmk";

}  // namespace

bool is_vmk_name(std::string_view text) {
  return text.starts_with(kVmkPrefix) && parse_decimal(text.substr(kVmkPrefix.size()), kVmkIndexMax);
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
  const auto number = whole_number<std::uint32_t>(text);
  return number && *number <= max ? number : std::nullopt;
}

}  // namespace pvrdma::control
