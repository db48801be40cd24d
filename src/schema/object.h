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

#include <array>
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

// What a description says of a member whatever its type is.
struct Member {
  std::string_view name;
  bool is_required = false;
  std::string_view example_value = {};  // written as in JSON (or TOML)
  std::string_view more = {};           // further members of its schema: R"("default": 2)"
};

template <typename Owner, typename Value, typename Rule>
struct Field : Member {
  Value Owner::*member;
  Rule rule;

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

// Whether `json` is an object. If not, that is recorded as a mistake.
bool check_object(Reader& reader, const ParsedJson& json);

// The value of a member of `json`, null if it is absent. A required member that is absent is recorded as a
// mistake.
const ParsedJson* value_of(Reader& reader, const ParsedJson& json, const Member& member, Unknown unknown);

void set_member(Json& object, std::string_view name, Json value);

// Collects the schema of an object, member by member.
class ObjectSchema {
 public:
  void add(const Member& member, Json schema);
  Json made(Unknown unknown) &&;

 private:
  Json properties_ = Json::object();
  Json required_ = Json::array();
};

// {"$ref": ...} to the schema `name`.
Json reference_to(std::string_view name);

template <typename T>
inline constexpr bool kIsOptional = false;
template <typename T>
inline constexpr bool kIsOptional<std::optional<T>> = true;

template <Described T>
inline constexpr auto kNames = std::apply(
    [](const auto&... field) { return std::array<std::string_view, sizeof...(field)>{field.name...}; },
    kObject<T>.fields);

template <Described T>
void read(Reader& reader, const ParsedJson& json, T& object) {
  if (!check_object(reader, json)) return;
  if constexpr (kObject<T>.unknown == Unknown::kRefused) reader.check_known(json, kNames<T>);
  for_each_field<T>([&](const auto& field) {
    const ParsedJson* const value = value_of(reader, json, field, kObject<T>.unknown);
    if (value == nullptr) return;
    const Reader::Inside inside(reader, field.name);
    field.rule.read(reader, *value, object.*field.member);
  });
}

template <Described T>
Json to_json(const T& object) {
  Json json = Json::object();
  for_each_field<T>(
      [&](const auto& field) { set_member(json, field.name, field.rule.write(object.*field.member)); });
  return json;
}

// Returns {"$ref": ...} and adds T's schema to `components`.
template <Described T>
Json schema_of(Components& components) {
  const std::string name(kObject<T>.name);
  if (!components.contains(name)) {
    components[name];  // reserves the name: a member may refer to it
    ObjectSchema object;
    for_each_field<T>([&](const auto& field) { object.add(field, field.rule.schema(components)); });
    components[name] = std::move(object).made(kObject<T>.unknown);
  }
  return reference_to(name);
}

// JSON as it is sent and stored. Texts of devices, guests and other versions may not be valid UTF-8: invalid
// bytes are replaced, and the text is not refused.
std::string text_of(const Json& json);

template <Described T>
std::string text_of(const T& object) {
  return text_of(to_json(object));
}

}  // namespace pvrdma::schema
