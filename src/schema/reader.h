// Reader: strict reading of what others wrote: the TOML of an operator, the records of a store, the bodies of
// requests. All of them arrive as a JSON tree; object.h has the descriptions that say what it must be.
//
// The first mistake counts: it is kept as a value that names the member, and nothing more is read. Each kind
// of input words it for its readers (sentence() does for JSON, the configuration for TOML).
//
// Thread: values.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"

namespace pvrdma::schema {

// Finds members in logarithmic time: others choose how many there are.
using ParsedJson = nlohmann::json;

struct Mistake {
  enum class Kind : std::uint8_t {
    kUnknown,  // members that the object does not know
    kMissing,  // a member that must be there
    kWrong,    // a value that is not allowed
  };
  Kind kind{};
  std::string member;  // "adapter.mac"; the first unknown one; empty: the object itself
  // kWrong:
  ParsedJson value;
  std::string wants;  // what the member takes: "a string"
  std::string why;    // the same as a clause that follows the value: "is no name: allowed are ..."
  // kUnknown:
  std::vector<std::string> unknown;
  std::vector<std::string> known;
  // kMissing:
  std::string example;  // a value it could have; empty: none is told
};

// "OBJECT's "vlan" must be a whole number from 0 to 4094, not 5000".
std::string sentence(const Mistake& mistake, std::string_view object);

class Reader {
 public:
  bool failed() const { return mistake_.has_value(); }
  const std::optional<Mistake>& mistake() const { return mistake_; }

  void wrong(const ParsedJson& value, std::string wants, std::string why);
  void missing(std::string_view member, std::string_view example);
  // A mistake if `json` has members that are not among `known`.
  void check_known(const ParsedJson& json, const std::vector<std::string>& known);

  // What is read while it lives is `member` of what was read before.
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

  std::string path_;  // of the object that is read: "adapter"
  std::optional<Mistake> mistake_;
};

// `text` as a tree. Error (EINVAL): a clause: it is no JSON object, has a member twice, nests more than
// `depth_max` deep.
Result<ParsedJson> parse_object(std::string_view text, int depth_max);

}  // namespace pvrdma::schema
