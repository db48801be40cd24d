#include "api/requests.h"

#include <fmt/core.h>
#include <utility>

namespace pvrdma::api {

Result<schema::ParsedJson> parse_body(const Call& call, int depth_max) {
  if (call.body.empty()) return schema::ParsedJson::object();
  auto json = schema::parse_object(call.body, depth_max);
  if (!json)
    return fail(ErrorKind::kInvalid, fmt::format("the body must be a JSON object: {}", json.error().message));
  return *std::move(json);
}

Failure mistaken(const schema::Mistake& mistake) {
  return fail(ErrorKind::kInvalid, sentence(mistake, "the body"), mistake.member);
}

void BodyRule::read(schema::Reader& reader, const schema::ParsedJson& json, std::string& out) const {
  if (!json.is_object()) return reader.wrong(json, "an object", "has the wrong type: it takes an object");
  out = json.dump();
}

}  // namespace pvrdma::api

namespace pvrdma::schema {

void LeaderRule::read(Reader& reader, const ParsedJson& json, motion::Leader& out) const {
  std::string text;
  TextRule{}.read(reader, json, text);
  if (reader.failed() || text.empty()) return;
  if (text == "libvirt") {
    out = motion::Leader::kLibvirt;
  } else if (text == "pvrdmad") {
    out = motion::Leader::kDaemons;
  } else {
    reader.wrong(json, "pvrdmad or libvirt", "is neither pvrdmad nor libvirt");
  }
}

}  // namespace pvrdma::schema
