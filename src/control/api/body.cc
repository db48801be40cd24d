#include "control/api/body.h"

#include <algorithm>
#include <cerrno>
#include <fmt/format.h>
#include <set>
#include <utility>

namespace pvrdma::control {
namespace {

using Json = nlohmann::json;

constexpr std::size_t kShownBytesMax = 64;
constexpr int kDepthMax = 4;

// Null: the text is no JSON, nests too deeply, or names a member twice. What is wrong goes to `why`.
std::optional<Json> parse(std::string_view text, std::string& why) {
  std::vector<std::set<std::string>> members;
  const auto check = [&](int depth, Json::parse_event_t event, Json& value) {
    if (depth > kDepthMax && why.empty()) why = fmt::format("it nests more than {} deep", kDepthMax);
    if (event == Json::parse_event_t::object_start) members.emplace_back();
    if (event == Json::parse_event_t::object_end) members.pop_back();
    if (event == Json::parse_event_t::key && !members.back().insert(value.get<std::string>()).second) {
      why = fmt::format("it has {} twice", value.get<std::string>());
    }
    return true;
  };
  Json json = Json::parse(text, check, /*allow_exceptions=*/false);
  if (json.is_discarded()) why = "it is no JSON";
  if (why.empty() && !json.is_object()) why = "it is no object";
  if (!why.empty()) return std::nullopt;
  return json;
}

std::string shown(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > kShownBytesMax) text = text.substr(0, kShownBytesMax) + "…";
  return text;
}

}  // namespace

Body::Body(std::string_view text) {
  if (text.empty()) return;
  std::string why;
  if (auto object = parse(text, why)) {
    object_ = *std::move(object);
  } else {
    mistake(fmt::format("the body must be a JSON object: {}", why));
  }
}

std::string Body::text(std::string_view member) {
  if (require(member) == nullptr) return {};
  return optional_text(member).value_or("");
}

std::uint32_t Body::number(std::string_view member, std::uint32_t max) {
  if (require(member) == nullptr) return 0;
  return optional_number(member, max).value_or(0);
}

std::optional<std::string> Body::optional_text(std::string_view member) {
  const Json* value = find(member);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) return value->get<std::string>();
  wrong_type(member, "a string", *value);
  return std::nullopt;
}

std::optional<std::uint32_t> Body::optional_number(std::string_view member, std::uint32_t max) {
  const Json* value = find(member);
  if (value == nullptr) return std::nullopt;
  if (value->is_number_unsigned() && value->get<std::uint64_t>() <= max) return value->get<std::uint32_t>();
  wrong_type(member, fmt::format("a whole number from 0 to {}", max), *value);
  return std::nullopt;
}

std::optional<bool> Body::optional_bool(std::string_view member) {
  const Json* value = find(member);
  if (value == nullptr) return std::nullopt;
  if (value->is_boolean()) return value->get<bool>();
  wrong_type(member, "true or false", *value);
  return std::nullopt;
}

std::optional<std::size_t> Body::optional_choice(std::string_view member,
                                                 std::initializer_list<std::string_view> allowed) {
  const Json* value = find(member);
  if (value == nullptr) return std::nullopt;
  if (value->is_string()) {
    const auto* const it = std::find(allowed.begin(), allowed.end(), value->get_ref<const std::string&>());
    if (it != allowed.end()) return static_cast<std::size_t>(it - allowed.begin());
  }
  wrong_type(member, fmt::format("one of \"{}\"", fmt::join(allowed, "\", \"")), *value);
  return std::nullopt;
}

std::optional<Body> Body::optional_object(std::string_view member) {
  const Json* value = find(member);
  if (value == nullptr || value->is_null()) return std::nullopt;
  if (!value->is_object()) {
    wrong_type(member, "an object", *value);
    return std::nullopt;
  }
  Body nested;
  nested.object_ = *value;
  nested.prefix_ = fmt::format("{}{}.", prefix_, member);
  return nested;
}

void Body::take_mistake(Body& nested) {
  if (auto done = nested.finish(); !done) mistake(std::move(done).error().message);
}

Result<void> Body::finish() {
  std::vector<std::string> unknown;
  for (const auto& [name, value] : object_.items()) {
    if (std::find(asked_.begin(), asked_.end(), name) == asked_.end()) unknown.push_back(prefix_ + name);
  }
  if (!unknown.empty()) {
    std::vector<std::string> known;
    for (const std::string& name : asked_) {
      if (std::find(known.begin(), known.end(), prefix_ + name) == known.end())
        known.push_back(prefix_ + name);
    }
    mistake_ = std::nullopt;
    mistake(fmt::format(
        "the body has {}, which is nothing this request knows: {}", fmt::join(unknown, ", "),
        known.empty() ? "it has no members" : fmt::format("it knows {}", fmt::join(known, ", "))));
  }
  if (mistake_) return fail(EINVAL, *mistake_);
  return {};
}

const Json* Body::find(std::string_view member) {
  asked_.emplace_back(member);
  const auto it = object_.find(std::string(member));
  return it == object_.end() ? nullptr : &*it;
}

const Json* Body::require(std::string_view member) {
  const Json* value = find(member);
  if (value == nullptr) mistake(fmt::format("the body lacks \"{}{}\"", prefix_, member));
  return value;
}

void Body::mistake(std::string sentence) {
  if (!mistake_) mistake_ = std::move(sentence);
}

void Body::wrong_type(std::string_view member, std::string_view wanted, const Json& value) {
  mistake(fmt::format("the body's \"{}{}\" must be {}, not {}", prefix_, member, wanted, shown(value)));
}

}  // namespace pvrdma::control
