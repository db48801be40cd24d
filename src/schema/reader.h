// Reader: reads what others wrote: an operator's TOML, the records of a store, the bodies of requests. All of
// them arrive as a JSON tree. The descriptions in object.h say what the tree must contain.
//
// Only the first mistake is kept, as a value that names the member; nothing more is read after it. Each kind
// of input has its own words for a mistake (sentence() for JSON, the configuration's for TOML).
//
// Thread: values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pvrdma::schema {

// Finds members in logarithmic time, because others choose how many there are.
using ParsedJson = nlohmann::json;

struct Mistake {
  enum class Kind : std::uint8_t {
    kUnknown,  // the object has members that its description does not list
    kMissing,  // a required member is absent
    kWrong,    // a value that is not allowed
  };
  Kind kind{};
  std::string member;  // "adapter.mac"; for kUnknown the first one; empty: the object itself
  // For kWrong:
  ParsedJson value;
  std::string wants;  // what the member takes: "a string"
  std::string why;    // the same as a clause that follows the value: "is not a name: allowed are ..."
  // For kUnknown:
  std::vector<std::string> unknown;
  std::vector<std::string> known;
  // For kMissing:
  std::string example;  // a value that it could have; empty: the text gives no example
};

// "OBJECT's "vlan" must be a whole number from 0 to 4094, not 5000".
std::string sentence(const Mistake& mistake, std::string_view object);

class Reader {
 public:
  bool failed() const { return mistake_.has_value(); }
  const std::optional<Mistake>& mistake() const { return mistake_; }

  void wrong(const ParsedJson& value, std::string wants, std::string why);
  void missing(std::string_view member, std::string_view example);
  // Records a mistake if `json` has members that are not among `known`.
  void check_known(const ParsedJson& json, std::span<const std::string_view> known);

  // While an Inside lives, everything that is read belongs to the member `member` of the current object.
  class Inside {
   public:
    Inside(Reader& reader, std::string_view member);
    ~Inside() { reader_.path_.resize(outside_); }
    Inside(const Inside&) = delete;
    Inside& operator=(const Inside&) = delete;

   private:
    Reader& reader_;
    const std::size_t outside_;
  };

 private:
  std::string path_of(std::string_view member) const;

  std::string path_;  // path of the object that is being read: "adapter"
  std::optional<Mistake> mistake_;
};

// Parses `text` as a tree. Error (EINVAL): a clause: it is not a JSON object, has a member twice, or nests
// more than `depth_max` levels deep.
Result<ParsedJson> parse_object(std::string_view text, int depth_max);

}  // namespace pvrdma::schema
