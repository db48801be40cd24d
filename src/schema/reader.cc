#include "schema/reader.h"

#include <algorithm>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace pvrdma::schema {
namespace {

constexpr std::size_t kShownBytesMax = 64;

std::string shown(const ParsedJson& value) {
  std::string text = value.dump(-1, ' ', false, ParsedJson::error_handler_t::replace);
  if (text.size() > kShownBytesMax) text = text.substr(0, kShownBytesMax) + "…";
  return text;
}

// A member's name, made fit for a log: another party chose its bytes and its length.
std::string shown_name(std::string_view name) {
  std::string text(name.substr(0, kShownBytesMax));
  std::replace_if(
      text.begin(), text.end(), [](char c) { return c < ' ' || c > '~'; }, '?');
  return name.size() > kShownBytesMax ? text + "…" : text;
}

}  // namespace

std::string sentence(const Mistake& mistake, std::string_view object) {
  switch (mistake.kind) {
    case Mistake::Kind::kUnknown:
      return fmt::format("{} has unknown members ({}): {}", object, fmt::join(mistake.unknown, ", "),
                         mistake.known.empty()
                             ? "it must have no members"
                             : fmt::format("allowed are {}", fmt::join(mistake.known, ", ")));
    case Mistake::Kind::kMissing:
      return fmt::format("{} lacks \"{}\"", object, mistake.member);
    case Mistake::Kind::kWrong:
      break;
  }
  return fmt::format("{}'s \"{}\" must be {}, not {}", object, mistake.member, mistake.wants,
                     shown(mistake.value));
}

void Reader::wrong(const ParsedJson& value, std::string wants, std::string why) {
  if (failed()) return;
  mistake_ = Mistake{.kind = Mistake::Kind::kWrong,
                     .member = path_,
                     .value = value,
                     .wants = std::move(wants),
                     .why = std::move(why)};
}

void Reader::missing(std::string_view member, std::string_view example) {
  if (failed()) return;
  mistake_ =
      Mistake{.kind = Mistake::Kind::kMissing, .member = path_of(member), .example = std::string(example)};
}

void Reader::check_known(const ParsedJson& json, std::span<const std::string_view> known) {
  if (failed()) return;
  Mistake mistake{.kind = Mistake::Kind::kUnknown};
  for (const auto& [name, value] : json.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end()) mistake.unknown.push_back(path_of(name));
  }
  if (mistake.unknown.empty()) return;
  mistake.member = mistake.unknown.front();
  for (const std::string_view name : known) mistake.known.push_back(path_of(name));
  mistake_ = std::move(mistake);
}

Reader::Inside::Inside(Reader& reader, std::string_view member)
    : reader_(reader), outside_(reader.path_.size()) {
  reader.path_ = reader.path_of(member);
}

std::string Reader::path_of(std::string_view member) const {
  return path_.empty() ? shown_name(member) : fmt::format("{}.{}", path_, shown_name(member));
}

Result<ParsedJson> parse_object(std::string_view text, int depth_max) {
  std::string why;
  std::vector<std::set<std::string>> members;
  const auto check = [&](int depth, ParsedJson::parse_event_t event, ParsedJson& value) {
    using Event = ParsedJson::parse_event_t;
    if (depth > depth_max && why.empty()) why = fmt::format("it nests more than {} levels deep", depth_max);
    if (event == Event::object_start) members.emplace_back();
    if (event == Event::object_end) members.pop_back();
    if (event == Event::key && !members.back().insert(value.get<std::string>()).second) {
      why = fmt::format("it has {} twice", shown_name(value.get<std::string>()));
    }
    return true;
  };
  ParsedJson json = ParsedJson::parse(text, check, /*allow_exceptions=*/false);
  if (json.is_discarded()) return fail(ErrorKind::kInvalid, "it is not valid JSON");
  if (why.empty() && !json.is_object()) why = "it is not a JSON object";
  if (!why.empty()) return fail(ErrorKind::kInvalid, std::move(why));
  return json;
}

}  // namespace pvrdma::schema
