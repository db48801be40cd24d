#include "api/requests.h"

#include <fmt/core.h>

namespace pvrdma::api {
namespace {

constexpr int kDepthMax = 4;

}  // namespace

Result<schema::ParsedJson> parse_body(const Call& call) {
  if (call.body.empty()) return schema::ParsedJson::object();
  auto json = schema::parse_object(call.body, kDepthMax);
  if (!json)
    return fail(ErrorKind::kInvalid, fmt::format("the body must be a JSON object: {}", json.error().message));
  return json;
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
