// Fields of the API's answers as text. Each throws Json::exception if the field is missing or of another
// type; show() (output.h) turns that into a sentence. Thread: any thread.
#pragma once

#include <cstdint>
#include <fmt/core.h>
#include <nlohmann/json.hpp>
#include <string>

#include "pvrdmactl/grammar.h"

namespace pvrdma::ctl {

inline std::string text_at(const Json& object, const char* key) {
  return object.at(key).get<std::string>();
}

inline std::uint64_t number_at(const Json& object, const char* key) {
  return object.at(key).get<std::uint64_t>();
}

inline std::string digits_at(const Json& object, const char* key) {
  return std::to_string(number_at(object, key));
}

// A number of bytes in MiB.
inline std::string mebibytes_at(const Json& object, const char* key) {
  return fmt::format("{} MiB", number_at(object, key) >> 20);
}

inline bool bool_at(const Json& object, const char* key) {
  return object.at(key).get<bool>();
}

inline std::string true_false_at(const Json& object, const char* key) {
  return bool_at(object, key) ? "true" : "false";
}

inline std::string or_dash(std::string text) {
  return text.empty() ? "-" : text;
}

// "a, b, c", as esxcli writes a list in a cell.
inline std::string joined(const Json& list) {
  std::string text;
  for (const Json& item : list) text += (text.empty() ? "" : ", ") + item.get<std::string>();
  return text;
}

}  // namespace pvrdma::ctl
