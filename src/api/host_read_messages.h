// The two messages of a call by which a daemon reads from another host's API: the question and its answer.
// docs/wire_format.md describes them.
//
// Thread: values.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>

#include "schema/rules.h"

namespace pvrdma {
namespace api {

inline constexpr const char* kReadWord = "read";  // the first word of the call
inline constexpr const char* kReadAnswerWord = "read-answer";

// The longest answer that is relayed. 20,000 QPs are about as long.
inline constexpr std::size_t kRelayedBytesMax = 8u << 20;

// A GET. Both members are decoded.
struct ReadWish {
  std::string path;
  std::map<std::string, std::string> query;
};

// The message's bytes are the answer's JSON.
struct ReadAnswer {
  std::uint32_t status = 200;  // of HTTP
};

}  // namespace api

namespace schema {

template <>
inline constexpr auto kObject<api::ReadWish> = record("ReadWish",
                                                      field("path", &api::ReadWish::path).required(),
                                                      field("query", &api::ReadWish::query));

template <>
inline constexpr auto kObject<api::ReadAnswer> =
    record("ReadAnswer", field("status", &api::ReadAnswer::status, NumberRule{200, 599}).required());

}  // namespace schema
}  // namespace pvrdma
