// EtcdClient: calls to one etcd cluster through the JSON gateway of any endpoint that answers.
//
// It tries endpoints in turn, beginning with the one that answered last. After a failure it goes on to the
// next endpoint. With a user it authenticates by itself, and again when etcd has forgotten the token. Bounds:
// 2 s for connecting, 5 s for a call with all its tries. Thread: any thread; each call uses its own HTTP
// session from a small pool.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <tl/expected.hpp>
#include <vector>

#include "control/store/etcd_codec.h"
#include "control/store/http_session.h"

namespace pvrdma::control::etcd {

struct CallFailure {
  Code code = Code::kNone;  // etcd's error code; kNone: no answer that is understood
  bool maybe_done = false;  // the request may have been carried out
  std::string sentence;     // names the endpoint
};

template <typename T>
using Outcome = tl::expected<T, CallFailure>;

class EtcdClient {
 public:
  static constexpr std::chrono::milliseconds kCallTimeout{5000};

  // Errors that do not pass by themselves: no endpoint, an invalid URL, a file that cannot be read.
  static Result<std::unique_ptr<EtcdClient>> create(const EtcdConfig& config);

  const EtcdConfig& config() const { return config_; }

  // Reads all records at one revision, page by page.
  Outcome<Range> read_all();
  // kOutOfRange: the changes since `revision` are no longer available (or there was no such revision).
  Outcome<Header> check_revision(std::int64_t revision);
  // Sent at most once. True: the changes were made. False: an expectation did not hold.
  Outcome<bool> commit(const std::string& txn_request);
  Outcome<Status> status();
  // kOutOfRange: the revision is already compacted.
  Outcome<void> compact(std::int64_t revision);
  Outcome<LeaseState> grant(std::uint32_t ttl_s);
  Outcome<LeaseState> keep_alive(std::int64_t lease, std::chrono::milliseconds timeout);
  // Bounded by `timeout`. Still works after interrupt(), as the last call.
  Outcome<void> revoke(std::int64_t lease, std::chrono::milliseconds timeout);

  // Watches at the current endpoint until `on_line` or `keep_on` returns false, another call to that endpoint
  // fails, or the stream breaks. Returns the reason. Records of one revision come in one line.
  CallFailure watch(std::int64_t first_revision, const std::function<bool(WatchLine)>& on_line,
                    const std::function<bool()>& keep_on);

  // Ends all current calls. Later ones fail.
  void interrupt();

 private:
  using Accept = std::function<Result<void>(std::string_view body)>;
  enum class Repeat { kNo, kYes };
  struct Endpoint {
    std::string url;
    std::atomic<std::uint64_t> failures = 0;
    explicit Endpoint(std::string text) : url(std::move(text)) {}
  };
  struct Call {
    std::string_view path;
    const std::string& body;
    Repeat repeat = Repeat::kYes;
    std::chrono::milliseconds timeout = kCallTimeout;
  };
  class Borrowed;

  explicit EtcdClient(EtcdConfig config);
  Outcome<void> call(const Call& call, const Accept& accept);
  Outcome<void> call_at(HttpSession& session, const Endpoint& endpoint, const Call& call,
                        std::chrono::milliseconds timeout, const Accept& accept);
  Outcome<void> post(HttpSession& session, const Endpoint& endpoint, const Call& call,
                     const std::string& token, std::chrono::milliseconds timeout, const Accept& accept);
  Outcome<std::string> token(HttpSession& session, const Endpoint& endpoint,
                             std::chrono::milliseconds timeout);
  void forget_token(const std::string& token);
  void failed(std::size_t endpoint);

  const EtcdConfig config_;
  std::vector<std::unique_ptr<Endpoint>> endpoints_;
  std::atomic<std::size_t> current_ = 0;

  std::mutex token_mutex_;
  std::string token_;  // empty: not authenticated yet

  std::mutex pool_mutex_;
  bool interrupted_ = false;
  std::vector<std::unique_ptr<HttpSession>> idle_;
  std::vector<HttpSession*> busy_;  // owned by the calls that borrowed them
};

}  // namespace pvrdma::control::etcd
