// Descriptions of objects. kObject<T> lists T's members once: each name, the member that holds the value, and
// the values that are allowed. The description alone decides how T is read (read()), how it is written
// (to_json()) and how the API describes it (schema_of()).
//
// A record is read tolerantly, because another version may have written it: unknown members are ignored, and
// null counts as absent. parse_object() refuses a text that has a member twice or nests too deep. A request,
// or a table of a configuration, must not have unknown members. In both cases an absent member keeps the
// value that it had, unless it is required.
//
// A rule (rules.h) says which values a member takes. It has rule.read(reader, json, value), rule.write(value)
// and rule.schema(components).
//
// Thread: descriptions are constants; the functions any thread.
#pragma once

#include <concepts>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <type_traits>
#include <vector>

#include "schema/reader.h"

namespace pvrdma::schema {

using Json = nlohmann::ordered_json;

// The schemas that a description refers to, by name. They become OpenAPI's components/schemas.
using Components = std::map<std::string, Json>;

template <typename Owner, typename Value, typename Rule>
struct Field {
  std::string_view name;
  Value Owner::*member;
  Rule rule;
  bool is_required = false;
  std::string_view example_value = {};  // written as in JSON (or TOML)
  std::string_view more = {};           // further members of its schema: R"("default": 2)"

  constexpr Field required(std::string_view example = {}) const {
    Field field = *this;
    field.is_required = true;
    field.example_value = example;
    return field;
  }
  constexpr Field noted(std::string_view schema) const {
    Field field = *this;
    field.more = schema;
    return field;
  }
};

enum class Unknown : bool { kIgnored, kRefused };

template <typename... Fields>
struct Object {
  std::string_view name;  // the name of its schema
  Unknown unknown;
  std::tuple<Fields...> fields;
};

// Specialised beside each described type.
template <typename T>
inline constexpr std::nullptr_t kObject = nullptr;

template <typename T>
concept Described = !std::is_null_pointer_v<std::remove_cvref_t<decltype(kObject<T>)>>;

template <typename Owner, typename Value, typename Rule>
constexpr std::tuple<Field<Owner, Value, Rule>> fields_in(const Field<Owner, Value, Rule>& field) {
  return {field};
}
template <typename... Fields>
constexpr std::tuple<Fields...> fields_in(const Object<Fields...>& object) {
  return object.fields;
}

template <typename... Fields>
constexpr Object<Fields...> object_of(std::string_view name, Unknown unknown, std::tuple<Fields...> fields) {
  return {name, unknown, std::move(fields)};
}

// Makes a description from fields, and from other objects, whose fields it includes.
template <typename... Parts>
constexpr auto record(std::string_view name, const Parts&... parts) {
  return object_of(name, Unknown::kIgnored, std::tuple_cat(fields_in(parts)...));
}
template <typename... Parts>
constexpr auto request(std::string_view name, const Parts&... parts) {
  return object_of(name, Unknown::kRefused, std::tuple_cat(fields_in(parts)...));
}

template <Described T, typename Each>
void for_each_field(Each each) {
  std::apply([&](const auto&... field) { (each(field), ...); }, kObject<T>.fields);
}

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <Described T>
void read(Reader& reader, const ParsedJson& json, T& object) {
  if (!json.is_object()) return reader.wrong(json, "an object", "has the wrong type: it takes an object");
  constexpr bool kStrict = kObject<T>.unknown == Unknown::kRefused;
  if constexpr (kStrict) {
    std::vector<std::string> known;
    for_each_field<T>([&](const auto& field) { known.emplace_back(field.name); });
    reader.check_known(json, known);
  }
  for_each_field<T>([&](const auto& field) {
    if (reader.failed()) return;
    const auto it = json.find(std::string(field.name));
    if (it == json.end() || (it->is_null() && !kStrict)) {
      if (field.is_required) reader.missing(field.name, field.example_value);
      return;
    }
    const Reader::Inside inside(reader, field.name);
    field.rule.read(reader, *it, object.*field.member);
  });
}

template <Described T>
Json to_json(const T& object) {
  Json json = Json::object();
  for_each_field<T>(
      [&](const auto& field) { json[std::string(field.name)] = field.rule.write(object.*field.member); });
  return json;
}

// Returns {"$ref": ...} and adds T's schema to `components`.
template <Described T>
Json schema_of(Components& components) {
  const std::string name(kObject<T>.name);
  if (!components.contains(name)) {
    Json properties = Json::object();
    Json required = Json::array();
    components[name];  // reserves the name: a member may refer to it
    for_each_field<T>([&](const auto& field) {
      Json schema = field.rule.schema(components);
      if (!field.example_value.empty()) schema["example"] = Json::parse(field.example_value);
      if (!field.more.empty()) schema.update(Json::parse("{" + std::string(field.more) + "}"));
      properties[std::string(field.name)] = std::move(schema);
      if (field.is_required) required.push_back(field.name);
    });
    Json object{{"type", "object"}};
    if (kObject<T>.unknown == Unknown::kRefused) object["additionalProperties"] = false;
    if (!required.empty()) object["required"] = std::move(required);
    object["properties"] = std::move(properties);
    components[name] = std::move(object);
  }
  return {{"$ref", "#/components/schemas/" + name}};
}

// JSON as it is sent and stored. Texts of devices, guests and other versions may not be valid UTF-8: invalid
// bytes are replaced, and the text is not refused.
std::string text_of(const Json& json);

template <Described T>
std::string text_of(const T& object) {
  return text_of(to_json(object));
}

}  // namespace pvrdma::schema
