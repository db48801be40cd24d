#include "control/config/flag_reader.h"

#include <charconv>
#include <fmt/core.h>
#include <utility>

namespace pvrdma::control {
namespace {

// The one key whose value is a number. What is no number stays text, and the rules say what they think of it.
SettingValue number_or_text(std::string_view text) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error == std::errc{} && end == text.data() + text.size()) return number;
  return std::string(text);
}

Setting make_setting(std::string_view key, std::string_view value, const std::string& where) {
  if (key == "hw") return Setting{"hardware_version", number_or_text(value), where, "hw"};
  return Setting{std::string(key), std::string(value), where, std::string(key)};
}

}  // namespace

Result<Section> read_adapter_flag(const std::string& text) {
  Section section{"", "--adapter " + text, {}};
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return fail(
          fmt::format("{}: \"{}\" is no KEY=VALUE: write name=VM-01,socket=PATH,mac=52:54:00:12:34:51,hw=14",
                      section.where, part));
    }
    Setting setting = make_setting(part.substr(0, equals), part.substr(equals + 1), section.where);
    if (section.find(setting.key) != nullptr) {
      return fail(fmt::format("{}: {} is given twice: give it once", section.where, setting.shown));
    }
    section.settings.push_back(std::move(setting));
    if (comma == std::string_view::npos) return section;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace pvrdma::control
