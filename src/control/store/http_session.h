// HttpSession: one HTTP/1.1 client connection (libcurl) that posts JSON, with bounds and an interrupt.
//
// It follows no redirect and ignores proxies of the environment. Thread: one at a time, but interrupt() any
// thread.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <tl/expected.hpp>

namespace pvrdma::control {

struct TlsFiles {
  std::string ca;  // empty: the system's CAs
  std::string certificate;
  std::string key;
};

struct HttpRequest {
  std::string url;
  std::string_view body;
  std::string authorization;             // the header's value; empty: no header
  std::chrono::milliseconds timeout{0};  // for the whole request; 0: no limit
  // Prevents a second sending: libcurl repeats a request when a reused connection fails.
  bool fresh_connection = false;
};

struct HttpAnswer {
  long status = 0;
  std::string body;
};

struct HttpFailure {
  std::string reason;  // "Connection refused", without names of objects
  bool sent = false;   // the server may have got the request
};

// What a session keeps at most of an answer.
struct HttpBounds {
  std::size_t body_mib;
  std::size_t line_mib;
};

class HttpSession {
 public:
  static constexpr std::chrono::milliseconds kConnectTimeout{2000};

  template <typename T>
  using Outcome = tl::expected<T, HttpFailure>;
  using LineSink = std::function<bool(std::string_view line)>;  // returns false to end the stream
  using KeepOn = std::function<bool()>;  // called at least once a second; returns false to end the stream

  explicit HttpSession(const TlsFiles& tls, HttpBounds bounds);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Blocks for at most the request's timeout. A body beyond the bound is a failure.
  Outcome<HttpAnswer> post(const HttpRequest& request);

  // Passes each line of the answer's body to `sink` as it arrives. It ends when the server ends, the
  // connection breaks, a line is beyond the bound, or one of the functions returns false. The body of the
  // result is the text after the last line break.
  Outcome<HttpAnswer> stream(const HttpRequest& request, const LineSink& sink, const KeepOn& keep_on);

  // Ends the current call and all later ones at once.
  void interrupt();

 private:
  struct Transfer;
  static std::size_t receive(const char* data, std::size_t size, std::size_t count, void* transfer);
  Outcome<HttpAnswer> run(const HttpRequest& request, Transfer& transfer, const KeepOn& keep_on);

  const HttpBounds bounds_;
  void* multi_;  // CURLM, owned
  void* easy_;   // CURL, owned
  std::atomic<bool> interrupted_ = false;
};

}  // namespace pvrdma::control
