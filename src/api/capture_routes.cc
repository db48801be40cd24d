// Captures: an adapter's messages as a file, and the list of captures that run on this host.
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "api/answers.h"
#include "api/requests.h"
#include "api/routes.h"
#include "base/no_such.h"
#include "base/whole_number.h"

namespace pvrdma::api {
namespace {

constexpr std::string_view kCaptureType = "application/x-pcapng";

Reply capture(adapters::Captures& captures, const Call& call) {
  auto wish = body_of<adapters::CaptureWish>(call);
  if (!wish) return refuse(wish.error());
  wish->adapter = call.names[0];
  auto stream = captures.start(*wish);
  if (!stream) return refuse(stream.error());
  return {200, {}, std::string(kCaptureType), *std::move(stream)};
}

Reply end_capture(adapters::Captures& captures, const std::string& name) {
  const auto id = whole_number<std::uint64_t>(name);
  if (!id) return refuse(no_such("capture", name, "adapter capture"));
  const auto ended = captures.end(*id);
  return ended ? ok("{}") : refuse(ended.error());
}

}  // namespace

void add_capture_routes(Router& router, const ApiParts& parts) {
  router.add(
      {.method = "POST",
       .path = "/v1/adapters/{adapter}/capture",
       .summary = "A pcapng file of the adapter's messages as RoCE frames, until the client stops reading",
       .body = schema_for<adapters::CaptureWish>,
       .answer = capture_schema,
       .handler = [&captures = parts.captures](const Call& call) { return capture(captures, call); },
       .streams = true});
  router.add({"GET", "/v1/captures", "Captures that run on this host", nullptr,
              schema_for<std::vector<adapters::CaptureState>>,
              [&captures = parts.captures](const Call&) { return ok(text_of(captures.list())); }});
  router.add({"DELETE", "/v1/captures/{capture}", "Ends a capture; its reader gets the rest of the file",
              nullptr, schema_for<Nothing>, [&captures = parts.captures](const Call& call) {
                return end_capture(captures, call.names[0]);
              }});
}

}  // namespace pvrdma::api
