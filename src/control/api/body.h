// Body: a request's JSON object, read strictly: every member is asked for by its name and type; one that is
// missing, of another type or never asked for is a mistake. The first mistake counts; finish() tells it.
//
// Thread: values.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pvrdma::control {

class Body {
 public:
  // An empty text is an empty object.
  explicit Body(std::string_view text);

  // Those that must be there. What they return after a mistake means nothing.
  std::string text(std::string_view member);
  std::uint32_t number(std::string_view member, std::uint32_t max = UINT32_MAX);

  std::optional<std::string> optional_text(std::string_view member);
  std::optional<std::uint32_t> optional_number(std::string_view member, std::uint32_t max = UINT32_MAX);
  std::optional<bool> optional_bool(std::string_view member);
  // The value's index in `allowed`.
  std::optional<std::size_t> optional_choice(std::string_view member,
                                             std::initializer_list<std::string_view> allowed);
  // A nested object; none: absent or null. Hand it back to take_mistake() when it has been read.
  std::optional<Body> optional_object(std::string_view member);
  void take_mistake(Body& nested);

  // EINVAL: the first mistake.
  Result<void> finish();

 private:
  Body() = default;
  const nlohmann::json* find(std::string_view member);
  const nlohmann::json* require(std::string_view member);
  void mistake(std::string sentence);
  void wrong_type(std::string_view member, std::string_view wanted, const nlohmann::json& value);

  nlohmann::json object_ = nlohmann::json::object();
  std::string prefix_;  // of members, "adapter." in a nested object
  std::vector<std::string> asked_;
  std::optional<std::string> mistake_;
};

}  // namespace pvrdma::control
