// Fields: reads the members of one JSON object that somebody else wrote. The first that is not as it should
// be is remembered as trouble(), a clause that names it; then nothing more is read.
//
// A missing member, or null, leaves what it would set as it was. Thread: values.
#pragma once

#include <cstdint>
#include <fmt/core.h>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/name.h"
#include "control/model/record_json.h"
#include "control/model/values.h"

namespace pvrdma::control {

// Finds members in logarithmic time: others choose how many there are.
using ParsedJson = nlohmann::json;

class Fields {
 public:
  explicit Fields(const ParsedJson& json) : json_(json) {
    if (!json.is_object()) trouble_ = "it is no JSON object";
  }

  const std::string& trouble() const { return trouble_; }
  void refuse(std::string_view member, std::string_view why) {
    if (trouble_.empty()) trouble_ = fmt::format("its member {} {}", member, why);
  }

  void text(const char* member, std::string& out) {
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    if (!value->is_string()) return refuse(member, "is no text");
    out = value->get<std::string>();
  }

  void flag(const char* member, bool& out) {
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    if (!value->is_boolean()) return refuse(member, "is neither true nor false");
    out = value->get<bool>();
  }

  template <typename Number>
  void number(const char* member, Number& out, Number max = std::numeric_limits<Number>::max()) {
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    if (!value->is_number_unsigned() || value->get<std::uint64_t>() > max) {
      return refuse(member, fmt::format("is no number up to {}", max));
    }
    out = static_cast<Number>(value->get<std::uint64_t>());
  }

  // `parse` makes an optional or a Result of the text.
  template <typename Value, typename Parse>
  void parsed(const char* member, Value& out, Parse parse) {
    std::string source;
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    text(member, source);
    const auto result = parse(source);
    if (!result) return refuse(member, "has a value that is not allowed");
    out = *result;
  }

  // A text that must be a name: the member is needed.
  void name(const char* member, std::string& out) {
    text(member, out);
    if (!is_name(out)) refuse(member, "is no name");
  }

  // `each(const ParsedJson&)` for every element of a list, and a trouble is that of the list.
  template <typename Each>
  void list(const char* member, Each each) {
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    if (!value->is_array()) return refuse(member, "is no list");
    for (const ParsedJson& element : *value) each(element);
  }

  // `each(const std::string& key, const ParsedJson&)` for every member of an object.
  template <typename Each>
  void object(const char* member, Each each) {
    const ParsedJson* value = find(member);
    if (value == nullptr) return;
    if (!value->is_object()) return refuse(member, "is no object");
    for (const auto& [key, element] : value->items()) each(key, element);
  }

  // An object inside this one. Its trouble is `member`'s.
  template <typename Object>
  void nested(std::string_view member, const ParsedJson& json, Object& out, void (*read)(Fields&, Object&)) {
    Fields fields(json);
    read(fields, out);
    if (!fields.trouble().empty()) refuse(member, fmt::format("is not understood: {}", fields.trouble()));
  }

  template <typename Object>
  void child(const char* member, Object& out, void (*read)(Fields&, Object&)) {
    if (const ParsedJson* value = find(member)) nested(member, *value, out, read);
  }

  template <typename Object>
  void optional_child(const char* member, std::optional<Object>& out, void (*read)(Fields&, Object&)) {
    if (const ParsedJson* value = find(member)) nested(member, *value, out.emplace(), read);
  }

  template <typename Object>
  void children(const char* member, std::vector<Object>& out, void (*read)(Fields&, Object&)) {
    list(member, [&](const ParsedJson& json) { nested(member, json, out.emplace_back(), read); });
  }

 private:
  // Null: absent, null, or there has been a trouble.
  const ParsedJson* find(const char* member) const {
    if (!trouble_.empty()) return nullptr;
    const auto it = json_.find(member);
    return it == json_.end() || it->is_null() ? nullptr : &*it;
  }

  const ParsedJson& json_;
  std::string trouble_;
};

}  // namespace pvrdma::control
