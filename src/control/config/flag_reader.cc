#include <fmt/core.h>
#include <type_traits>
#include <utility>

#include "base/whole_number.h"
#include "control/config/section.h"
#include "control/config/tables.h"

namespace pvrdma::control {
namespace {

template <typename Rule>
inline constexpr bool kReadsNumbers =
    std::is_same_v<Rule, schema::NumberRule> || std::is_same_v<Rule, HardwareVersionRule>;

bool takes_number(std::string_view key) {
  bool takes = false;
  schema::for_each_field<AdapterTable>([&](const auto& field) {
    if (field.name == key) takes = kReadsNumbers<std::remove_cvref_t<decltype(field.rule)>>;
  });
  return takes;
}

// A text that is not a number stays a text, and the rules judge it.
schema::ParsedJson number_or_text(std::string_view text) {
  if (const auto number = whole_number<std::int64_t>(text)) return *number;
  return text;
}

}  // namespace

Result<Section> read_adapter_flag(const std::string& text) {
  Section section{"", "--adapter " + text};
  std::string_view rest = text;
  while (true) {
    const auto comma = rest.find(',');
    const std::string_view part = rest.substr(0, comma);
    const auto equals = part.find('=');
    if (equals == std::string_view::npos || equals == 0) {
      return fail(
          fmt::format("{}: \"{}\" is not KEY=VALUE: write name=VM-01,socket=PATH,mac=52:54:00:12:34:51,hw=14",
                      section.where, part));
    }
    const std::string shown(part.substr(0, equals));
    const std::string_view value = part.substr(equals + 1);
    const std::string key = shown == "hw" ? "hardware_version" : shown;
    if (section.has(key)) {
      return fail(fmt::format("{}: {} is given twice: give it once", section.where, shown));
    }
    section.set(key, takes_number(key) ? number_or_text(value) : schema::ParsedJson(value),
                {section.where, shown});
    if (comma == std::string_view::npos) return section;
    rest.remove_prefix(comma + 1);
  }
}

}  // namespace pvrdma::control
