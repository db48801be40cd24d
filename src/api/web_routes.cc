// The web client's files. They hold no secret, so a browser gets them without a token; what it then asks of
// the API needs one.
#include <algorithm>
#include <string>

#include "api/answers.h"
#include "api/routes.h"
#include "web/assets.h"

namespace pvrdma::api {
namespace {

// Only files of this server run or show anything; no other page embeds or opens this one.
constexpr std::string_view kPolicy =
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'none'; base-uri 'none'; frame-ancestors 'none'; require-trusted-types-for 'script'; "
    "trusted-types lit-html";

Reply show(const web::Asset& asset) {
  const bool is_index = asset.name == web::kIndex;
  return {.text = std::string(asset.bytes),
          .type = std::string(asset.type),
          .headers = {{"Cache-Control", is_index ? "no-cache" : "public, max-age=31536000, immutable"},
                      {"Content-Security-Policy", kPolicy},
                      {"Cross-Origin-Opener-Policy", "same-origin"},
                      {"Cross-Origin-Resource-Policy", "same-origin"},
                      {"Referrer-Policy", "no-referrer"},
                      {"X-Content-Type-Options", "nosniff"}},
          .gzip = asset.gzip};
}

Reply show_file(const Call& call) {
  const auto found = std::ranges::find(web::assets(), call.names[0], &web::Asset::name);
  if (found != web::assets().end()) return show(*found);
  return refuse(ErrorKind::kNotFound,
                "the web client has no file " + call.names[0] + ": open /ui/, which names the files");
}

}  // namespace

void add_web_routes(Router& router) {
  if (web::assets().empty()) return;
  for (const std::string_view path : {"/", "/ui"}) {
    router.add({.method = "GET",
                .path = path,
                .summary = "Leads to the web client, /ui/",
                .body = nullptr,
                .answer = nullptr,
                .handler =
                    [](const Call&) {
                      return Reply{.status = 302, .headers = {{"Location", "/ui/"}}};
                    },
                .is_open = true});
  }
  router.add({.method = "GET",
              .path = "/ui/",
              .summary = "The web client",
              .body = nullptr,
              .answer = file_schema,
              .handler = [](const Call&) { return show(web::assets().front()); },
              .is_open = true});
  router.add({.method = "GET",
              .path = "/ui/{file}",
              .summary = "A file of the web client",
              .body = nullptr,
              .answer = file_schema,
              .handler = show_file,
              .is_open = true});
}

}  // namespace pvrdma::api
