#include "schema/rules.h"

#include <cmath>
#include <fmt/format.h>

#include "base/hex.h"
#include "vocabulary/name.h"

namespace pvrdma::schema {
namespace {

template <typename T>
tl::expected<T, std::string> parsed(const std::string& text, std::string why_not) {
  const auto value = T::parse(text);
  if (!value) return WhyNot(std::move(why_not));
  return *value;
}

}  // namespace

Json schema_named(Components& components, const char* name, Json schema) {
  components.try_emplace(name, std::move(schema));
  return reference_to(name);
}

void FlagRule::read(Reader& reader, const ParsedJson& json, bool& out) const {
  if (!json.is_boolean())
    return reader.wrong(json, "true or false", "has the wrong type: it takes true or false");
  out = json.get<bool>();
}

void ProbabilityRule::read(Reader& reader, const ParsedJson& json, std::uint32_t& out) const {
  const double value = json.is_number() ? json.get<double>() : -1;
  const bool usable = value == 0 || (value >= 1e-6 && value <= 1);
  if (!usable) return reader.wrong(json, "0, or a probability from 0.000001 to 1", "is not a probability");
  out = static_cast<std::uint32_t>(std::lround(value * 1e6));
}

Json FlagRule::schema(Components&) const {
  return {{"type", "boolean"}};
}

Json ProbabilityRule::schema(Components&) const {
  return {{"type", "number"}, {"minimum", 0}, {"maximum", 1}};
}

Json HexRule::schema(Components&) const {
  return {{"type", "string"}, {"pattern", "^([0-9a-f]{2})*$"}};
}

std::optional<std::uint64_t> NumberRule::read_up_to(Reader& reader, const ParsedJson& json,
                                                    std::uint64_t limit) const {
  if (json.is_number_integer() && (json.is_number_unsigned() || json.get<std::int64_t>() >= 0)) {
    const auto number = json.get<std::uint64_t>();
    if (number >= min && number <= limit) return number;
  }
  reader.wrong(json, fmt::format("a whole number from {} to {}", min, limit),
               fmt::format("is not allowed: it takes a number from {} to {}", min, limit));
  return std::nullopt;
}

Json NumberRule::schema(Components&) const {
  Json schema{{"type", "integer"}, {"format", "int64"}, {"minimum", min}};
  if (max != NumberRule{}.max) schema["maximum"] = max;
  return schema;
}

void TextRule::read(Reader& reader, const ParsedJson& json, std::string& out) const {
  if (!json.is_string()) {
    return reader.wrong(json, std::string(wants), "has the wrong type: it takes a string in quotes");
  }
  const auto& text = json.get_ref<const std::string&>();
  std::string why = why_not == nullptr ? std::string() : why_not(text);
  if (!why.empty()) return reader.wrong(json, std::string(wants), std::move(why));
  out = text;
}

Json TextRule::schema(Components& components) const {
  if (schema_name == nullptr) return {{"type", "string"}};
  return schema_named(components, schema_name, {{"type", "string"}, {"pattern", pattern}});
}

void HexRule::read_bytes(Reader& reader, const ParsedJson& json, std::span<std::uint8_t> out) {
  if (json.is_string() && from_hex(json.get_ref<const std::string&>(), out)) return;
  reader.wrong(json, fmt::format("{} bytes in hexadecimal digits", out.size()),
               fmt::format("is not allowed: it takes {} hexadecimal digits in quotes", 2 * out.size()));
}

Json HexRule::write(std::span<const std::uint8_t> bytes) const {
  return to_hex(bytes);
}

void wrong_word(Reader& reader, const ParsedJson& json, std::string_view noun,
                std::span<const std::string_view> texts) {
  reader.wrong(json, fmt::format("one of \"{}\"", fmt::join(texts, "\", \"")),
               json.is_string() ? fmt::format("is not a {}: allowed are {}", noun, fmt::join(texts, ", "))
                                : "has the wrong type: it takes a string in quotes");
}

Json schema_of_words(std::span<const std::string_view> texts) {
  return {{"type", "string"}, {"enum", texts}};
}

Json nullable(Json schema) {
  if (!schema.contains("$ref")) return schema;
  return {{"allOf", Json::array({std::move(schema)})}, {"nullable", true}};
}

bool check_list(Reader& reader, const ParsedJson& json, std::size_t max) {
  if (!json.is_array()) {
    reader.wrong(json, "a list", "has the wrong type: it takes a list");
    return false;
  }
  if (json.size() <= max) return true;
  reader.wrong(json, fmt::format("a list of at most {}", max),
               fmt::format("is too long: it takes at most {}", max));
  return false;
}

Json schema_of_list(Json items) {
  return {{"type", "array"}, {"items", std::move(items)}};
}

Json schema_of_map(Json values) {
  return {{"type", "object"}, {"additionalProperties", std::move(values)}};
}

std::string why_no_name(const std::string& text) {
  return is_name(text) ? std::string() : fmt::format("is not a name: allowed are {}", kNameRule);
}

tl::expected<Mac, std::string> Form<Mac>::parse(const std::string& text) {
  const auto mac = Mac::parse(text);
  if (!mac) return WhyNot("is not a MAC address: write six bytes such as 52:54:00:12:34:51");
  if (mac->is_zero()) {
    return WhyNot("is the zero address: give the MAC of the VM's vmxnet3 adapter");
  }
  if (mac->is_multicast()) {
    return WhyNot("is a multicast address: give the MAC of the VM's vmxnet3 adapter, its first byte is even");
  }
  return *mac;
}

Json Form<Mac>::schema(Components& components) {
  return schema_named(components, "Mac",
                      {{"type", "string"}, {"pattern", "^[0-9a-fA-F]{2}(:[0-9a-fA-F]{2}){5}$"}});
}

tl::expected<IpAddress, std::string> Form<IpAddress>::parse(const std::string& text) {
  return parsed<IpAddress>(text, "is not an IP address: write it as 10.0.0.1 or fd00::1");
}

tl::expected<IpNetwork, std::string> Form<IpNetwork>::parse(const std::string& text) {
  return parsed<IpNetwork>(text, "is not an IP network: write it as 10.0.0.0/24 or fd00::/64");
}

tl::expected<LinkName, std::string> Form<LinkName>::parse(const std::string& text) {
  auto link = parse_link_name(text);
  if (!link) return WhyNot(std::move(link).error().message);
  return *std::move(link);
}

}  // namespace pvrdma::schema
