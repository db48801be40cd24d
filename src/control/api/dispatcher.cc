#include "control/api/dispatcher.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <fmt/core.h>
#include <memory>
#include <utility>

#include "base/log.h"

namespace pvrdma::control {
namespace {

// Where the request being answered on this thread puts the stream that it has for an answer; null: nobody
// takes it. The library writes its head and would write the rest while a listening socket of its own is open,
// of which we have none. No object: its destructor would be registered at the thread's first use, and glibc
// ends the process when it has no memory for that.
constinit thread_local std::shared_ptr<ByteStream>* answer_stream = nullptr;

void send(const Reply& reply, httplib::Response& response) {
  response.status = reply.status;
  if (reply.stream != nullptr) {
    if (answer_stream != nullptr) *answer_stream = reply.stream;
    response.set_chunked_content_provider(reply.type, [](std::size_t, httplib::DataSink&) { return false; });
    return;
  }
  response.set_content(reply.text, reply.type);
}

bool write_chunk(ClientStream& to, const std::string& bytes) {
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  return to.write(chunk.data(), chunk.size()) == static_cast<ssize_t>(chunk.size());
}

// Until the stream's end, or until the client does not take it any more.
void copy_all(ByteStream& from, ClientStream& to) {
  for (bool more = true; more && to.is_writable();) {
    to.begin_piece();
    std::string bytes;
    more = from.read(bytes);
    if (!bytes.empty() && !write_chunk(to, bytes)) return;
    if (!more) static_cast<void>(write_chunk(to, {}));
  }
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

Dispatcher::Dispatcher(const Router& router, KnowsName knows, Gate gate)
    : router_(router), knows_(std::move(knows)), gate_(std::move(gate)) {
  set_payload_max_length(kBodyBytesMax);
  // What the library would make of a request by itself: an answer with thousands of ranges, a match of a long
  // path with a regex that recurses, and a refusal of a form or of a packed body that it has not read.
  set_pre_routing_handler([](const httplib::Request& given, httplib::Response&) {
    auto& request = const_cast<httplib::Request&>(given);
    request.ranges.clear();
    request.path.resize(std::min(request.path.size(), kPathBytesMax + 1));
    hide_content_type(request);
    request.headers.erase("Content-Encoding");
    return HandlerResponse::Unhandled;
  });
  constexpr const char* kAll = ".*";
  Get(kAll, [this](const httplib::Request& request, httplib::Response& response) {
    if (const auto refusal = refuse_unread(request, response)) return send(*refusal, response);
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
  set_exception_handler(
      [](const httplib::Request&, httplib::Response& response, const std::exception_ptr& cause) {
        try {
          std::rethrow_exception(cause);
        } catch (const std::exception& problem) {
          log::error("API: a request made it fail: {}", problem.what());
        } catch (...) {
          log::error("API: a request made it fail");
        }
        send(refuse(500, "the request made the API fail: see the daemon's log"), response);
      });
}

void Dispatcher::answer_one(ClientStream& client) {
  bool closed = false;
  std::shared_ptr<ByteStream> body;
  answer_stream = &body;
  process_request(client, /*close_connection=*/true, closed, nullptr);
  answer_stream = nullptr;
  if (body != nullptr) copy_all(*body, client);
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

std::optional<Reply> Dispatcher::refuse_unread(const httplib::Request& request,
                                               httplib::Response& response) const {
  if (request.path.size() > kPathBytesMax) return refuse(414, sentence_of(414));
  if (auto foreign = refuse_foreign(request, knows_)) return foreign;
  return gate_ ? gate_(request, response) : std::nullopt;
}

// A body is read, up to a bound, also when its request is refused: a client that still writes when the
// connection ends loses the answer.
void Dispatcher::answer_with_body(const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) const {
  std::optional<Reply> refusal = refuse_unread(request, response);
  std::string body;
  if (const auto bytes = announced_bytes(request)) {
    if (!refusal && *bytes > kBodyBytesMax) refusal = too_long();
    if (!refusal && !says_json(request))
      refusal = refuse(415, "a body must be JSON and say so: add the header Content-Type: application/json");
    std::uint64_t skipped = 0;
    const bool complete = *bytes <= kSkippedBytesMax && read([&](const char* data, std::size_t size) {
      if (!refusal && size > kBodyBytesMax - body.size()) refusal = too_long();
      if (refusal) {
        skipped += size;
      } else {
        body.append(data, size);
      }
      return skipped <= kSkippedBytesMax;
    });
    if (!refusal && !complete) refusal = refuse(400, "the body is incomplete");
  }
  if (refusal) return send(*refusal, response);
  answer(request, response, std::move(body));
}

}  // namespace pvrdma::control
