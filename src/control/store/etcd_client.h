// EtcdClient: calls to one etcd cluster through the JSON gateway of whichever endpoint answers.
//
// Endpoints are tried in turn, beginning with the one that answered last; one that fails is left for the
// next. With a user it authenticates by itself, and again when etcd has forgotten the token. Bounds:
// connecting 2 s, a call with all its tries 5 s. Thread: any thread; each call uses an HTTP session of its
// own from a small pool.
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
  Code code = Code::kNone;  // what etcd said; kNone: it said nothing that is understood
  bool maybe_done = false;  // the request may have been carried out
  std::string sentence;     // names the endpoint
};

template <typename T>
using Outcome = tl::expected<T, CallFailure>;

class EtcdClient {
 public:
  static constexpr std::chrono::milliseconds kCallTimeout{5000};

  // Error: what waiting does not heal: no endpoint, one that is no URL, a file that cannot be read.
  static Result<std::unique_ptr<EtcdClient>> create(const EtcdConfig& config);

  const EtcdConfig& config() const { return config_; }

  // All records at one revision, page by page.
  Outcome<Range> read_all();
  // kOutOfRange: what happened since `revision` cannot be had any more (or there was no such revision).
  Outcome<Header> check_revision(std::int64_t revision);
  // Sent at most once. True: made; false: an expectation did not hold.
  Outcome<bool> commit(const std::string& txn_request);
  Outcome<Status> status();
  // kOutOfRange: it is compacted already.
  Outcome<void> compact(std::int64_t revision);
  Outcome<LeaseState> grant(std::uint32_t ttl_s);
  Outcome<LeaseState> keep_alive(std::int64_t lease, std::chrono::milliseconds timeout);
  // Bounded by `timeout`; works after interrupt(), as the last thing.
  Outcome<void> revoke(std::int64_t lease, std::chrono::milliseconds timeout);

  // Watches at the current endpoint until `on_line` says enough, somebody fails to talk to that endpoint, or
  // the stream breaks; says why. Records of one revision are in one line.
  CallFailure watch(std::int64_t first_revision, const std::function<bool(WatchLine)>& on_line,
                    const std::function<bool()>& keep_on);

  // Ends all calls under way; later ones fail.
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
  std::string token_;  // empty: none yet

  std::mutex pool_mutex_;
  bool interrupted_ = false;
  std::vector<std::unique_ptr<HttpSession>> idle_;
  std::vector<HttpSession*> busy_;  // owned by their borrowers
};

}  // namespace pvrdma::control::etcd
