#include "control/api/dispatcher.h"

#include <charconv>
#include <fmt/core.h>
#include <utility>

namespace pvrdma::control {
namespace {

constexpr std::uint64_t kSkippedBytesMax = 1024 * 1024;

void send(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  response.set_content(reply.text, reply.type);
}

Reply too_long() {
  return refuse(413, fmt::format("the body has more than {} bytes", kBodyBytesMax));
}

// What the library refused by itself.
std::string_view sentence_of(int status) {
  switch (status) {
    case 400:
      return "this is no HTTP request that this API understands";
    case 404:
      return "this is nothing this API knows: see pvrdmad(8)";
    case 413:
      return "the request is too long";
    case 414:
      return "the path is too long";
    default:
      return "the request was refused";
  }
}

// None: no body was announced. The library would wait for the end of the connection.
std::optional<std::uint64_t> announced_bytes(const httplib::Request& request) {
  if (request.has_header("Transfer-Encoding")) return 1;
  const std::string text = request.get_header_value("Content-Length");
  std::uint64_t bytes = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), bytes);
  if (error == std::errc::result_out_of_range) return UINT64_MAX;
  if (error != std::errc() || end != text.data() + text.size() || bytes == 0) return std::nullopt;
  return bytes;
}

}  // namespace

Dispatcher::Dispatcher(const Router& router, Gate gate) : router_(router) {
  set_payload_max_length(kBodyBytesMax);
  set_pre_routing_handler(
      [gate = std::move(gate)](const httplib::Request& request, httplib::Response& response) {
        // The library would answer each of a request's ranges, of which there may be thousands.
        const_cast<httplib::Request&>(request).ranges.clear();
        std::optional<Reply> refusal;
        if (request.path.size() > kPathBytesMax) refusal = refuse(414, sentence_of(414));
        if (!refusal && gate) refusal = gate(request, response);
        if (!refusal) return HandlerResponse::Unhandled;
        send(*refusal, response);
        return HandlerResponse::Handled;
      });
  constexpr const char* kAll = ".*";
  Get(kAll, [this](const httplib::Request& request, httplib::Response& response) {
    answer(request, response, {});
  });
  const HandlerWithContentReader with_body =
      [this](const httplib::Request& request, httplib::Response& response,
             const httplib::ContentReader& read) { answer_with_body(request, response, read); };
  Post(kAll, with_body);
  Put(kAll, with_body);
  Patch(kAll, with_body);
  Delete(kAll, with_body);
  set_error_handler([](const httplib::Request&, httplib::Response& response) {
    if (response.body.empty()) send(refuse(response.status, sentence_of(response.status)), response);
  });
  set_exception_handler([](const httplib::Request&, httplib::Response& response, const std::exception_ptr&) {
    send(refuse(500, "the request made the API fail: see the daemon's log"), response);
  });
}

void Dispatcher::answer(const httplib::Request& request, httplib::Response& response,
                        std::string body) const {
  Call call{.method = request.method == "HEAD" ? "GET" : request.method,
            .path = request.path,
            .query = {request.params.begin(), request.params.end()},
            .body = std::move(body),
            .names = {}};
  send(router_.answer(std::move(call)), response);
}

void Dispatcher::answer_with_body(const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) const {
  std::string body;
  if (const auto bytes = announced_bytes(request)) {
    // What is too long is still read, up to a bound: a client that writes loses an answer that comes early.
    if (*bytes > kBodyBytesMax) {
      if (*bytes <= kSkippedBytesMax) read([](const char*, std::size_t) { return true; });
      return send(too_long(), response);
    }
    if (request.is_multipart_form_data())
      return send(refuse(400, "the body must be a JSON object"), response);
    bool fits = true;
    std::uint64_t skipped = 0;
    const bool complete = read([&](const char* data, std::size_t size) {
      fits = fits && size <= kBodyBytesMax - body.size();
      if (fits) {
        body.append(data, size);
      } else {
        skipped += size;
      }
      return skipped <= kSkippedBytesMax;
    });
    if (!fits) return send(too_long(), response);
    if (!complete) return send(refuse(400, "the body is incomplete"), response);
  }
  answer(request, response, std::move(body));
}

}  // namespace pvrdma::control
