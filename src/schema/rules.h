// Rules: which values a described member takes (see object.h). field() chooses the rule by the member's type.
// A member with a range or form of its own passes its rule to field().
//
// Thread: constants.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <utility>
#include <vector>

#include "base/ip_address.h"
#include "base/time.h"
#include "base/words.h"
#include "schema/object.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/link_name.h"
#include "vocabulary/mac.h"

namespace pvrdma::schema {

// Returns {"$ref": ...} to a schema without members, and adds that schema to `components`.
Json schema_named(Components& components, const char* name, Json schema);

struct FlagRule {
  void read(Reader& reader, const ParsedJson& json, bool& out) const;
  Json write(bool value) const { return value; }
  Json schema(Components&) const;
};

struct NumberRule {
  std::uint64_t min = 0;
  std::uint64_t max = std::numeric_limits<std::uint64_t>::max();  // or the type's maximum, if that is less

  template <std::unsigned_integral Number>
  void read(Reader& reader, const ParsedJson& json, Number& out) const {
    const auto limit = std::min<std::uint64_t>(max, std::numeric_limits<Number>::max());
    if (const auto number = read_up_to(reader, json, limit)) out = static_cast<Number>(*number);
  }
  Json write(std::uint64_t value) const { return value; }
  Json schema(Components&) const;

  std::optional<std::uint64_t> read_up_to(Reader& reader, const ParsedJson& json, std::uint64_t limit) const;
};
inline constexpr NumberRule kNetworkMtu{kNetworkMtuMin, kNetworkMtuMax};
inline constexpr NumberRule kVlan{0, kVlanMax};

// A duration, as a number of microseconds.
struct MicrosecondsRule {
  Json write(Duration value) const { return microseconds_of(value); }
  Json schema(Components& components) const { return NumberRule{}.schema(components); }
};

// A duration in whole units. Reading 0 leaves the value unchanged.
template <typename Unit>
struct WholeRule {
  void read(Reader& reader, const ParsedJson& json, Duration& out) const {
    std::uint32_t number = 0;
    NumberRule{}.read(reader, json, number);
    if (number != 0) out = Unit(number);
  }
  Json write(Duration value) const { return std::chrono::duration_cast<Unit>(value).count(); }
  Json schema(Components& components) const { return NumberRule{}.schema(components); }
};

// A probability, kept in millionths: 0, or at least one millionth.
struct ProbabilityRule {
  void read(Reader& reader, const ParsedJson& json, std::uint32_t& out) const;
  Json write(std::uint32_t ppm) const { return ppm / 1e6; }
  Json schema(Components&) const;
};

// A text, and which texts are allowed.
struct TextRule {
  std::string_view wants = "a string";                   // "a name"
  std::string (*why_not)(const std::string&) = nullptr;  // says what is wrong with a text; empty: nothing
  const char* schema_name = nullptr;                     // the name of a separate schema, which has `pattern`
  const char* pattern = nullptr;

  void read(Reader& reader, const ParsedJson& json, std::string& out) const;
  Json write(std::string_view value) const { return value; }
  Json schema(Components& components) const;
};

// Bytes, each as two hexadecimal digits.
struct HexRule {
  template <std::size_t Size>
  void read(Reader& reader, const ParsedJson& json, std::array<std::uint8_t, Size>& out) const {
    read_bytes(reader, json, out);
  }
  Json write(std::span<const std::uint8_t> bytes) const;
  Json schema(Components&) const;

 private:
  static void read_bytes(Reader& reader, const ParsedJson& json, std::span<std::uint8_t> out);
};

using WhyNot = tl::unexpected<std::string>;

// A value that is written as a text. Form<T>::parse() makes the value from its text, or says what is wrong;
// Form<T>::write() makes its text.
template <typename T>
struct Form;

template <typename T>
concept Formed = requires(const std::string& text, const T& value) {
  { Form<T>::parse(text) } -> std::same_as<tl::expected<T, std::string>>;
};

template <Formed T>
struct FormRule {
  void read(Reader& reader, const ParsedJson& json, T& out) const {
    std::string text;
    TextRule{}.read(reader, json, text);
    if (reader.failed()) return;
    auto value = Form<T>::parse(text);
    if (!value) return reader.wrong(json, Form<T>::kWants, std::move(value).error());
    out = *std::move(value);
  }
  Json write(const T& value) const { return Form<T>::write(value); }
  Json schema(Components& components) const { return Form<T>::schema(components); }
};

// Records that `json` is none of the words `texts`. `noun` names the kind of word.
void wrong_word(Reader& reader, const ParsedJson& json, std::string_view noun,
                std::span<const std::string_view> texts);
Json schema_of_words(std::span<const std::string_view> texts);

// One of the words of an enumeration.
template <Worded Enum>
struct WordRule {
  std::string_view noun = "word";  // "RoCE version"

  void read(Reader& reader, const ParsedJson& json, Enum& out) const {
    if (json.is_string()) {
      if (const auto value = from_text<Enum>(json.get_ref<const std::string&>())) {
        out = *value;
        return;
      }
    }
    wrong_word(reader, json, noun, texts_of<Enum>());
  }
  Json write(Enum value) const { return to_text(value); }
  Json schema(Components&) const { return schema_of_words(texts_of<Enum>()); }
};

template <Described T>
struct ObjectRule {
  void read(Reader& reader, const ParsedJson& json, T& out) const { schema::read(reader, json, out); }
  Json write(const T& value) const { return to_json(value); }
  Json schema(Components& components) const { return schema_of<T>(components); }
};

// The schema of a member that may be absent. One that is only a $ref is wrapped, because the members beside a
// $ref are ignored.
Json nullable(Json schema);

// An absent value is written as null.
template <typename Rule>
struct OptionalRule {
  Rule rule;

  template <typename T>
  void read(Reader& reader, const ParsedJson& json, std::optional<T>& out) const {
    if (Described<T> && json.is_null()) return;
    rule.read(reader, json, out.emplace());
  }
  template <typename T>
  Json write(const std::optional<T>& value) const {
    return value ? rule.write(*value) : Json(nullptr);
  }
  Json schema(Components& components) const { return nullable(rule.schema(components)); }
};

// Whether `json` is a list of at most `max` values. If not, that is recorded as a mistake.
bool check_list(Reader& reader, const ParsedJson& json, std::size_t max);
Json schema_of_list(Json items);

template <typename Rule>
struct ListRule {
  Rule rule;
  std::size_t max = std::numeric_limits<std::size_t>::max();

  template <typename T>
  void read(Reader& reader, const ParsedJson& json, std::vector<T>& out) const {
    if (!check_list(reader, json, max)) return;
    out.clear();
    for (std::size_t i = 0; i < json.size() && !reader.failed(); ++i) {
      const Reader::Inside inside(reader, std::to_string(i));
      rule.read(reader, json[i], out.emplace_back());
    }
  }
  template <typename T>
  Json write(const std::vector<T>& values) const {
    Json list = Json::array();
    for (const T& value : values) list.push_back(rule.write(value));
    return list;
  }
  Json schema(Components& components) const { return schema_of_list(rule.schema(components)); }
};

Json schema_of_map(Json values);

// A map: an object whose member names are not listed in a description.
template <typename Rule>
struct MapRule {
  Rule rule;
  TextRule key;

  template <typename T>
  void read(Reader& reader, const ParsedJson& json, std::map<std::string, T>& out) const {
    if (!check_object(reader, json)) return;
    out.clear();
    for (const auto& [name, value] : json.items()) {
      if (reader.failed()) return;
      const Reader::Inside inside(reader, name);
      std::string checked;
      key.read(reader, name, checked);
      rule.read(reader, value, out[name]);
    }
  }
  template <typename T>
  Json write(const std::map<std::string, T>& values) const {
    Json object = Json::object();
    for (const auto& [name, value] : values) set_member(object, name, rule.write(value));
    return object;
  }
  Json schema(Components& components) const { return schema_of_map(rule.schema(components)); }
};

// The rule for a type.
template <typename T>
struct RuleOf;
template <>
struct RuleOf<bool> {
  using Type = FlagRule;
};
template <std::unsigned_integral T>
struct RuleOf<T> {
  using Type = NumberRule;
};
template <>
struct RuleOf<std::string> {
  using Type = TextRule;
};
template <>
struct RuleOf<std::string_view> {
  using Type = TextRule;
};
template <Formed T>
struct RuleOf<T> {
  using Type = FormRule<T>;
};
template <Worded T>
struct RuleOf<T> {
  using Type = WordRule<T>;
};
template <Described T>
struct RuleOf<T> {
  using Type = ObjectRule<T>;
};
template <typename T>
struct RuleOf<std::optional<T>> {
  using Type = OptionalRule<typename RuleOf<T>::Type>;
};
template <typename T>
struct RuleOf<std::vector<T>> {
  using Type = ListRule<typename RuleOf<T>::Type>;
};
template <typename T>
struct RuleOf<std::map<std::string, T>> {
  using Type = MapRule<typename RuleOf<T>::Type>;
};

// The OpenAPI schema of `T`, and its text. `T` is an object or a list of objects.
template <typename T>
Json schema_for(Components& components) {
  return typename RuleOf<T>::Type{}.schema(components);
}
template <typename T>
std::string text_of(const std::vector<T>& values) {
  return text_of(typename RuleOf<std::vector<T>>::Type{}.write(values));
}

template <typename Owner, typename Value>
constexpr auto field(std::string_view name, Value Owner::*member) {
  return Field<Owner, Value, typename RuleOf<Value>::Type>{{name}, member, {}};
}
template <typename Owner, typename Value, typename Rule>
constexpr auto field(std::string_view name, Value Owner::*member, Rule rule) {
  return Field<Owner, Value, Rule>{{name}, member, rule};
}

// --- Texts and values that many objects use ---

std::string why_no_name(const std::string& text);
inline constexpr TextRule kName{"a name", why_no_name, "Name", "^[A-Za-z0-9._-]{1,64}$"};

// The MAC address of one interface: neither zero nor multicast.
template <>
struct Form<Mac> {
  static constexpr const char* kWants = "a MAC address of one interface";
  static tl::expected<Mac, std::string> parse(const std::string& text);
  static std::string write(const Mac& mac) { return mac.to_string(); }
  static Json schema(Components& components);
};

template <>
struct Form<IpAddress> {
  static constexpr const char* kWants = "an IP address";
  static tl::expected<IpAddress, std::string> parse(const std::string& text);
  static std::string write(const IpAddress& address) { return address.to_string(); }
  static Json schema(Components& components) { return TextRule{}.schema(components); }
};

template <>
struct Form<IpNetwork> {
  static constexpr const char* kWants = "an IP network";
  static tl::expected<IpNetwork, std::string> parse(const std::string& text);
  static std::string write(const IpNetwork& network) { return network.to_string(); }
  static Json schema(Components& components) { return TextRule{}.schema(components); }
};

template <>
struct Form<LinkName> {
  static constexpr const char* kWants = "a RoCE link";
  static tl::expected<LinkName, std::string> parse(const std::string& text);
  static std::string write(const LinkName& link) { return link.to_string(); }
  static Json schema(Components& components) { return TextRule{}.schema(components); }
};

}  // namespace pvrdma::schema
