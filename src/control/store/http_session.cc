#include "control/store/http_session.h"

#include <array>
#include <curl/curl.h>
#include <fmt/core.h>
#include <mutex>

#include "base/check.h"
#include "base/control_thread.h"

namespace pvrdma::control {
namespace {

constexpr int kPollMs = 1000;
constexpr long kTcpKeepAliveS = 5;  // a path that drops a quiet watch's connection shows after some of these

struct HeaderList {
  curl_slist* list = nullptr;  // owned
  ~HeaderList() { curl_slist_free_all(list); }
  void add(const std::string& line) { list = curl_slist_append(list, line.c_str()); }
};

}  // namespace

struct HttpSession::Transfer {
  HttpBounds bounds;
  const LineSink* sink = nullptr;  // null: the whole body is kept
  std::string buffer;
  bool enough = false;
  std::string cut;  // the reason why the transfer was ended

  bool take(std::string_view data) {
    if (sink == nullptr) {
      if (buffer.size() + data.size() > bounds.body_mib << 20) {
        cut = fmt::format("its answer is longer than {} MiB", bounds.body_mib);
        return false;
      }
      buffer.append(data);
      return true;
    }
    while (!data.empty()) {
      const std::size_t end = data.find('\n');
      const std::string_view piece = data.substr(0, end);
      if (buffer.size() + piece.size() > bounds.line_mib << 20) {
        cut = fmt::format("it sent an event longer than {} MiB", bounds.line_mib);
        return false;
      }
      buffer.append(piece);
      if (end == std::string_view::npos) return true;
      data.remove_prefix(end + 1);
      const std::string line = std::exchange(buffer, {});
      if (!line.empty() && !(*sink)(line)) {
        enough = true;
        return false;
      }
    }
    return true;
  }
};

HttpSession::HttpSession(const TlsFiles& tls, HttpBounds bounds) : bounds_(bounds) {
  static std::once_flag once;
  std::call_once(once, [] { PVRDMA_CHECK(curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK, "libcurl"); });
  while ((multi_ = curl_multi_init()) == nullptr) pause_for_memory();
  while ((easy_ = curl_easy_init()) == nullptr) pause_for_memory();
  // Otherwise each fresh connection would leave an idle one behind.
  curl_multi_setopt(multi_, CURLMOPT_MAXCONNECTS, 1L);
  CURL* easy = easy_;
  curl_easy_setopt(easy, CURLOPT_NOSIGNAL, 1L);
  curl_easy_setopt(easy, CURLOPT_NOPROXY, "*");
  curl_easy_setopt(easy, CURLOPT_PROTOCOLS_STR, "http,https");
  curl_easy_setopt(easy, CURLOPT_HTTP_VERSION, static_cast<long>(CURL_HTTP_VERSION_1_1));
  curl_easy_setopt(easy, CURLOPT_CONNECTTIMEOUT_MS, static_cast<long>(kConnectTimeout.count()));
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPALIVE, 1L);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPIDLE, kTcpKeepAliveS);
  curl_easy_setopt(easy, CURLOPT_TCP_KEEPINTVL, kTcpKeepAliveS);
  curl_easy_setopt(easy, CURLOPT_WRITEFUNCTION, &HttpSession::receive);
  curl_easy_setopt(easy, CURLOPT_SSLVERSION, static_cast<long>(CURL_SSLVERSION_TLSv1_2));
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYPEER, 1L);
  curl_easy_setopt(easy, CURLOPT_SSL_VERIFYHOST, 2L);
  if (!tls.ca.empty()) {
    curl_easy_setopt(easy, CURLOPT_CAINFO, tls.ca.c_str());
    curl_easy_setopt(easy, CURLOPT_CAPATH, nullptr);  // only that CA, not the system's CAs besides
  }
  if (!tls.certificate.empty()) curl_easy_setopt(easy, CURLOPT_SSLCERT, tls.certificate.c_str());
  if (!tls.key.empty()) curl_easy_setopt(easy, CURLOPT_SSLKEY, tls.key.c_str());
}

HttpSession::~HttpSession() {
  curl_easy_cleanup(easy_);
  curl_multi_cleanup(multi_);
}

void HttpSession::interrupt() {
  interrupted_ = true;
  curl_multi_wakeup(multi_);
}

std::size_t HttpSession::receive(const char* data, std::size_t size, std::size_t count, void* transfer) {
  const std::size_t bytes = size * count;
  return static_cast<Transfer*>(transfer)->take({data, bytes}) ? bytes : 0;
}

HttpSession::Outcome<HttpAnswer> HttpSession::post(const HttpRequest& request) {
  Transfer transfer{bounds_};
  return run(request, transfer, [] { return true; });
}

HttpSession::Outcome<HttpAnswer> HttpSession::stream(const HttpRequest& request, const LineSink& sink,
                                                     const KeepOn& keep_on) {
  Transfer transfer{bounds_, &sink};
  return run(request, transfer, keep_on);
}

HttpSession::Outcome<HttpAnswer> HttpSession::run(const HttpRequest& request, Transfer& transfer,
                                                  const KeepOn& keep_on) {
  CURL* easy = easy_;
  std::array<char, CURL_ERROR_SIZE> detail{};
  HeaderList headers;
  headers.add("Content-Type: application/json");
  headers.add("Expect:");  // otherwise large bodies wait a second for a "100 Continue"
  if (!request.authorization.empty()) headers.add("Authorization: " + request.authorization);
  curl_easy_setopt(easy, CURLOPT_URL, request.url.c_str());
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, headers.list);
  curl_easy_setopt(easy, CURLOPT_POSTFIELDSIZE_LARGE, static_cast<curl_off_t>(request.body.size()));
  curl_easy_setopt(easy, CURLOPT_POSTFIELDS, request.body.data());
  curl_easy_setopt(easy, CURLOPT_TIMEOUT_MS, static_cast<long>(request.timeout.count()));
  curl_easy_setopt(easy, CURLOPT_FRESH_CONNECT, request.fresh_connection ? 1L : 0L);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, detail.data());
  curl_easy_setopt(easy, CURLOPT_WRITEDATA, &transfer);

  CURLcode code = CURLE_ABORTED_BY_CALLBACK;
  if (curl_multi_add_handle(multi_, easy) != CURLM_OK) {
    return tl::unexpected(HttpFailure{"libcurl has no memory for a transfer"});
  }
  int running = 0;
  while (!interrupted_ && keep_on()) {
    if (curl_multi_perform(multi_, &running) != CURLM_OK) {
      code = CURLE_FAILED_INIT;
      break;
    }
    int left = 0;
    if (const CURLMsg* message = curl_multi_info_read(multi_, &left); message != nullptr) {
      code = message->data.result;
      break;
    }
    curl_multi_poll(multi_, nullptr, 0, kPollMs, nullptr);
  }
  curl_multi_remove_handle(multi_, easy);

  HttpAnswer answer;
  curl_off_t sending_began_us = 0;
  curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &answer.status);
  curl_easy_getinfo(easy, CURLINFO_PRETRANSFER_TIME_T, &sending_began_us);
  curl_easy_setopt(easy, CURLOPT_ERRORBUFFER, nullptr);
  curl_easy_setopt(easy, CURLOPT_HTTPHEADER, nullptr);
  const bool sent = sending_began_us > 0;
  if (interrupted_) return tl::unexpected(HttpFailure{"interrupted", sent});
  if (!transfer.cut.empty()) return tl::unexpected(HttpFailure{transfer.cut, sent});
  if (code == CURLE_OK || transfer.enough || code == CURLE_ABORTED_BY_CALLBACK) {
    answer.body = std::move(transfer.buffer);
    return answer;
  }
  if (code == CURLE_OPERATION_TIMEDOUT) return tl::unexpected(HttpFailure{"it did not answer in time", sent});
  return tl::unexpected(HttpFailure{detail[0] != '\0' ? detail.data() : curl_easy_strerror(code), sent});
}

}  // namespace pvrdma::control
