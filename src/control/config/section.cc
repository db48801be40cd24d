#include "control/config/section.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "base/check.h"

namespace pvrdma::control {
namespace {

std::string prefix(const Section& section, std::string_view where) {
  return fmt::format("{}: {}{}", where, section.title, section.title.empty() ? "" : " ");
}

std::string shown(const schema::ParsedJson& value) {
  if (value.is_string()) return fmt::format("\"{}\"", value.get_ref<const std::string&>());
  if (value.is_number_integer() || value.is_boolean()) return value.dump();
  if (!value.is_array() ||
      !std::all_of(value.begin(), value.end(), [](const auto& each) { return each.is_string(); })) {
    return fmt::format("({})", kind_of(value));
  }
  const auto texts = value.get<std::vector<std::string>>();
  return texts.empty() ? "[]" : fmt::format("[\"{}\"]", fmt::join(texts, "\", \""));
}

}  // namespace

void Section::set(const std::string& key, schema::ParsedJson value, Origin origin) {
  values[key] = std::move(value);
  origins.insert_or_assign(key, std::move(origin));
}

std::string_view kind_of(const schema::ParsedJson& value) {
  switch (value.type()) {
    case schema::ParsedJson::value_t::object:
      return "a table";
    case schema::ParsedJson::value_t::array:
      return "an array";
    case schema::ParsedJson::value_t::string:
      return "a string";
    case schema::ParsedJson::value_t::boolean:
      return "a boolean";
    case schema::ParsedJson::value_t::number_integer:
    case schema::ParsedJson::value_t::number_unsigned:
      return "an integer";
    case schema::ParsedJson::value_t::number_float:
      return "a floating-point number";
    default:
      return "a date or time";
  }
}

Failure wrong(const Section& section, std::string_view why) {
  return fail(prefix(section, section.where).append(why));
}

Failure wrong(const Section& section, const std::string& key, std::string_view why) {
  const Section::Origin& origin = section.origins.at(key);
  return fail(fmt::format("{}{} = {} {}", prefix(section, origin.where), origin.shown,
                          shown(section.values.at(key)), why));
}

Failure wrong(const Section& section, const schema::Mistake& mistake) {
  switch (mistake.kind) {
    case schema::Mistake::Kind::kUnknown: {
      // The mistake has the key only in a form fit for a log, so its origin is that of a key that is not
      // allowed.
      const auto origin = std::find_if(section.origins.begin(), section.origins.end(), [&](const auto& each) {
        return std::find(mistake.known.begin(), mistake.known.end(), each.first) == mistake.known.end();
      });
      PVRDMA_CHECK(origin != section.origins.end(), "an unknown key is in the section");
      return fail(fmt::format("{}unknown key {}: allowed are {}", prefix(section, origin->second.where),
                              mistake.member, fmt::join(mistake.known, ", ")));
    }
    case schema::Mistake::Kind::kMissing:
      return wrong(section,
                   fmt::format("lacks {}: add {} = {}", mistake.member, mistake.member, mistake.example));
    case schema::Mistake::Kind::kWrong:
      break;
  }
  const std::size_t dot = mistake.member.find('.');  // what follows says which value of a list
  if (dot == std::string::npos) return wrong(section, mistake.member, mistake.why);
  const Section::Origin& origin = section.origins.at(mistake.member.substr(0, dot));
  return fail(fmt::format("{}{}: {} {}", prefix(section, origin.where), origin.shown, shown(mistake.value),
                          mistake.why));
}

}  // namespace pvrdma::control
