#include "schema/object.h"

#include <fmt/format.h>
#include <utility>

namespace pvrdma::schema {

bool check_object(Reader& reader, const ParsedJson& json) {
  if (json.is_object()) return true;
  reader.wrong(json, "an object", "has the wrong type: it takes an object");
  return false;
}

const ParsedJson* value_of(Reader& reader, const ParsedJson& json, const Member& member, Unknown unknown) {
  if (reader.failed()) return nullptr;
  const auto it = json.find(member.name);
  if (it != json.end() && (unknown == Unknown::kRefused || !it->is_null())) return &*it;
  if (member.is_required) reader.missing(member.name, member.example_value);
  return nullptr;
}

void set_member(Json& object, std::string_view name, Json value) {
  object[std::string(name)] = std::move(value);
}

void ObjectSchema::add(const Member& member, Json schema) {
  if (!member.example_value.empty()) schema["example"] = Json::parse(member.example_value);
  if (!member.more.empty()) schema.update(Json::parse(fmt::format("{{{}}}", member.more)));
  if (member.is_required) required_.push_back(member.name);
  set_member(properties_, member.name, std::move(schema));
}

Json ObjectSchema::made(Unknown unknown) && {
  Json object{{"type", "object"}};
  if (unknown == Unknown::kRefused) object["additionalProperties"] = false;
  if (!required_.empty()) object["required"] = std::move(required_);
  object["properties"] = std::move(properties_);
  return object;
}

Json reference_to(std::string_view name) {
  return {{"$ref", fmt::format("#/components/schemas/{}", name)}};
}

std::string text_of(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace pvrdma::schema
