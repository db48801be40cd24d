// HttpSession: one HTTP/1.1 client connection (libcurl) that posts JSON, with bounds and an interrupt.
//
// Follows no redirect, uses no proxy of the environment. Thread: one at a time, but interrupt() any thread.
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
  std::string ca;  // empty: the system's
  std::string certificate;
  std::string key;
};

struct HttpRequest {
  std::string url;
  std::string_view body;
  std::string authorization;             // value of the header; empty: none
  std::chrono::milliseconds timeout{0};  // of everything; 0: none
  bool fresh_connection = false;  // never sends twice: libcurl repeats on a reused connection that died
};

struct HttpAnswer {
  long status = 0;
  std::string body;
};

struct HttpFailure {
  std::string reason;  // "Connection refused"; no names of objects
  bool sent = false;   // the server may have got the request
};

class HttpSession {
 public:
  static constexpr std::chrono::milliseconds kConnectTimeout{2000};
  static constexpr std::size_t kMaxBodyBytes = std::size_t{64} << 20;
  static constexpr std::size_t kMaxLineBytes = std::size_t{16} << 20;

  template <typename T>
  using Outcome = tl::expected<T, HttpFailure>;
  using LineSink = std::function<bool(std::string_view line)>;  // false: enough
  using KeepOn = std::function<bool()>;                         // asked at least once a second; false: enough

  explicit HttpSession(const TlsFiles& tls);
  ~HttpSession();
  HttpSession(const HttpSession&) = delete;
  HttpSession& operator=(const HttpSession&) = delete;

  // Blocks for at most the request's timeout. A body beyond kMaxBodyBytes is a failure.
  Outcome<HttpAnswer> post(const HttpRequest& request);

  // Hands each line of the answer's body to `sink` as it comes. Ends when the server ends, the connection
  // breaks, or one of the functions says enough; the answer's body is what followed the last line break.
  Outcome<HttpAnswer> stream(const HttpRequest& request, const LineSink& sink, const KeepOn& keep_on);

  // Ends the call under way and all later ones at once.
  void interrupt();

 private:
  struct Transfer;
  static std::size_t receive(const char* data, std::size_t size, std::size_t count, void* transfer);
  Outcome<HttpAnswer> run(const HttpRequest& request, Transfer& transfer, const KeepOn& keep_on);

  void* multi_;  // CURLM, owned
  void* easy_;   // CURL, owned
  std::atomic<bool> interrupted_ = false;
};

}  // namespace pvrdma::control
