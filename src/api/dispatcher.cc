#include "api/dispatcher.h"

#include <algorithm>
#include <charconv>
#include <exception>
#include <fmt/core.h>
#include <memory>
#include <utility>

#include "api/watch.h"
#include "base/log.h"

namespace pvrdma::api {
namespace {

// The connection of the request that this thread is answering. If the answer is a stream, send() puts the
// stream here. The library writes only the head of such an answer: it would write the rest only while a
// listening socket of its own is open, and we have none.
struct Answering {
  ClientStream& connection;
  const std::string& client;
  std::shared_ptr<ByteStream> stream = nullptr;
};
// Null: nobody takes a stream. This is a pointer, not an object: an object's destructor would be registered
// at the thread's first use, and glibc ends the process if it has no memory for that.
constinit thread_local Answering* answering = nullptr;

bool takes_gzip(const httplib::Request& request) {
  return request.get_header_value("Accept-Encoding").find("gzip") != std::string::npos;
}

void send(const Reply& reply, httplib::Response& response, bool takes_gzip = false) {
  response.status = reply.status;
  for (const auto& [name, value] : reply.headers) response.set_header(name, std::string(value));
  if (reply.stream != nullptr) {
    if (answering != nullptr) answering->stream = reply.stream;
    response.set_chunked_content_provider(reply.type, [](std::size_t, httplib::DataSink&) { return false; });
    return;
  }
  if (!reply.gzip.empty()) response.set_header("Vary", "Accept-Encoding");
  if (reply.gzip.empty() || !takes_gzip) return response.set_content(reply.text, reply.type);
  response.set_header("Content-Encoding", "gzip");
  response.set_content(std::string(reply.gzip), reply.type);
}

// The library packs an answer as the client permits, with Brotli rather than gzip. Brotli at the library's
// setting takes a hundred times as long, on one of a few threads.
void forbid_brotli(httplib::Request& request) {
  const bool gzip = takes_gzip(request);
  request.headers.erase("Accept-Encoding");
  if (gzip) request.headers.emplace("Accept-Encoding", "gzip");
}

bool write_chunk(ClientStream& to, const std::string& bytes) {
  const std::string chunk = fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes);
  return to.write(chunk.data(), chunk.size()) == static_cast<ssize_t>(chunk.size());
}

// Copies until the stream ends, or until the client takes no more bytes.
void copy_all(ByteStream& from, ClientStream& to) {
  for (bool more = true; more && to.is_writable();) {
    to.begin_piece();
    std::string bytes;
    more = from.read(bytes);
    if (!bytes.empty() && !write_chunk(to, bytes)) return;
    if (!more) static_cast<void>(write_chunk(to, {}));
  }
}

Reply too_long(std::size_t bytes_max) {
  return refuse(413, fmt::format("the body has more than {} bytes", bytes_max));
}

constexpr std::string_view kBytesType = "application/octet-stream";

std::optional<Reply> refuse_type(const httplib::Request& request, bool binary) {
  if (says(request, binary ? kBytesType : "application/json")) return std::nullopt;
  return refuse(
      415, binary
               ? fmt::format("the body must be bytes and say so: add the header Content-Type: {}", kBytesType)
               : "a body must be JSON and say so: add the header Content-Type: application/json");
}

// The sentence for a request that the library refused.
std::string_view sentence_of(int status) {
  switch (status) {
    case 400:
      return "this is not an HTTP request that this API understands";
    case 404:
      return "this API has no such path: see pvrdmad(8)";
    case 413:
      return "the request is too long";
    case 414:
      return "the path is too long";
    default:
      return "the request was refused";
  }
}

// One of the few places for large bodies that may arrive at the same time, because they use the daemon's
// memory.
class LargeBody {
 public:
  LargeBody(std::atomic<int>& count, bool is_large) : count_(count), counted_(is_large) {
    if (counted_) admitted_ = count_.fetch_add(1) < kLargeBodiesMax;
  }
  ~LargeBody() {
    if (counted_) count_.fetch_sub(1);
  }
  LargeBody(const LargeBody&) = delete;
  LargeBody& operator=(const LargeBody&) = delete;
  bool admitted() const { return admitted_; }

 private:
  static constexpr int kLargeBodiesMax = 2;

  std::atomic<int>& count_;
  const bool counted_;
  bool admitted_ = true;
};

// Nothing: no body was announced. In that case the library would wait until the connection ends.
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
    : router_(router),
      knows_(std::move(knows)),
      gate_(std::move(gate)),
      watchers_(kWatchersMax, kWatchersOfClientMax) {
  set_payload_max_length(kBinaryBodyBytesMax);
  // Disables what the library would do with a request by itself: an answer with thousands of ranges, a regex
  // match of a long path, which recurses, and the refusal of a form or of a compressed body that it has not
  // read.
  set_pre_routing_handler([](const httplib::Request& given, httplib::Response&) {
    auto& request = const_cast<httplib::Request&>(given);
    request.ranges.clear();
    request.path.resize(std::min(request.path.size(), kPathBytesMax + 1));
    hide_content_type(request);
    request.headers.erase("Content-Encoding");
    forbid_brotli(request);
    return HandlerResponse::Unhandled;
  });
  constexpr const char* kAll = ".*";
  Get(kAll, [this](const httplib::Request& request, httplib::Response& response) {
    const Admission admission = admit(request, response);
    if (const auto* refusal = std::get_if<Reply>(&admission)) return send(*refusal, response);
    answer(std::get<Role>(admission), request, response, {});
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
        send(refuse(ErrorKind::kInternal, "the request made the API fail: see the daemon's log"), response);
      });
}

void Dispatcher::answer_one(ClientStream& stream, const std::string& client) {
  bool closed = false;
  Answering answer{stream, client};
  answering = &answer;
  process(stream, /*close_connection=*/true, closed);
  answering = nullptr;
  if (answer.stream != nullptr) copy_all(*answer.stream, stream);
}

bool Dispatcher::process(httplib::Stream& stream, bool close_connection, bool& closed) {
  // Debian 12's cpp-httplib asks the stream for the addresses of both ends; Debian 13's takes them as
  // arguments. No handler looks at them.
  return [&](auto& server) {
    if constexpr (requires { server.process_request(stream, close_connection, closed, nullptr); }) {
      return server.process_request(stream, close_connection, closed, nullptr);
    } else {
      return server.process_request(stream, "", -1, "", -1, close_connection, closed, nullptr);
    }
  }(*this);
}

void Dispatcher::answer(Role role, const httplib::Request& request, httplib::Response& response,
                        std::string body) const {
  Call call{.role = role,
            .method = request.method,
            .path = request.path,
            .query = {request.params.begin(), request.params.end()},
            .body = std::move(body),
            .watchers = &watchers_,
            .names = {}};
  if (answering != nullptr) call.client = answering->client;
  const Reply reply = router_.answer(std::move(call));
  send(reply, response, takes_gzip(request));
  // The reply is compressed already, so the library must not compress it.
  if (!reply.gzip.empty()) const_cast<httplib::Request&>(request).headers.erase("Accept-Encoding");
}

Dispatcher::Admission Dispatcher::admit(const httplib::Request& request, httplib::Response& response) const {
  if (request.path.size() > kPathBytesMax) return refuse(414, sentence_of(414));
  if (auto foreign = refuse_foreign(request, knows_)) return *std::move(foreign);
  if (router_.is_open(request.method, request.path)) return Role::kReadOnly;
  if (auto foreign = refuse_cross_site(request)) return *std::move(foreign);
  const std::string_view client = answering != nullptr ? std::string_view(answering->client) : "";
  Admission admission = gate_ ? gate_(request, client, response) : Role::kAdministrator;
  if (const Role* role = std::get_if<Role>(&admission)) {
    if (auto refusal = Router::refuse_role(*role, request.method, request.path)) return *std::move(refusal);
  }
  return admission;
}

// A body is read, up to a limit, even if its request is refused: a client that is still writing when the
// connection ends would lose the answer.
void Dispatcher::answer_with_body(const httplib::Request& request, httplib::Response& response,
                                  const httplib::ContentReader& read) const {
  Admission admission = admit(request, response);
  std::optional<Reply> refusal;
  if (auto* refused = std::get_if<Reply>(&admission)) refusal = std::move(*refused);
  std::string body;
  if (const auto bytes = announced_bytes(request)) {
    const std::size_t binary_max = router_.binary_bytes_max(request.method, request.path);
    const std::size_t bytes_max = binary_max != 0 ? binary_max : kBodyBytesMax;
    if (!refusal && *bytes > bytes_max) refusal = too_long(bytes_max);
    if (!refusal) refusal = refuse_type(request, binary_max != 0);
    const LargeBody large(large_bodies_, !refusal && binary_max != 0);
    if (!large.admitted())
      refusal = refuse(ErrorKind::kUnavailable, "too many large bodies come at once: try again");
    if (!refusal && answering != nullptr) answering->connection.allow(binary_max);
    std::uint64_t skipped = 0;
    const bool readable = *bytes <= (refusal ? kSkippedBytesMax : std::max(bytes_max, kSkippedBytesMax));
    const bool complete = readable && read([&](const char* data, std::size_t size) {
                            if (!refusal && size > bytes_max - body.size()) refusal = too_long(bytes_max);
                            if (refusal) {
                              skipped += size;
                            } else {
                              body.append(data, size);
                            }
                            return skipped <= kSkippedBytesMax;
                          });
    if (!refusal && !complete) refusal = refuse(ErrorKind::kInvalid, "the body is incomplete");
  }
  if (refusal) return send(*refusal, response);
  answer(std::get<Role>(admission), request, response, std::move(body));
}

}  // namespace pvrdma::api
