#include "control/store/etcd_client.h"

#include <algorithm>
#include <cerrno>
#include <curl/curl.h>
#include <fmt/core.h>
#include <fstream>

#include "base/log.h"

namespace pvrdma::control::etcd {
namespace {

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr std::size_t kMaxIdleSessions = 4;
constexpr int kPageRecords = 1000;
constexpr int kMaxPages = 1000;
constexpr milliseconds kMinTry{1000};

milliseconds until(SteadyTime deadline) {
  return std::max(milliseconds(1),
                  std::chrono::ceil<milliseconds>(deadline - std::chrono::steady_clock::now()));
}

struct Url {
  std::string text;  // without a path
  bool plain_to_others = false;
};

Result<Url> parse_endpoint(const std::string& endpoint) {
  const auto refuse = [&](std::string_view why) {
    return fail(EINVAL,
                fmt::format("etcd endpoint '{}': {}: write it like https://10.0.0.1:2379", endpoint, why));
  };
  const std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> url(curl_url(), &curl_url_cleanup);
  if (curl_url_set(url.get(), CURLUPART_URL, endpoint.c_str(), 0) != CURLUE_OK)
    return refuse("it is not a URL");
  const auto part = [&](CURLUPart what) {
    char* text = nullptr;
    if (curl_url_get(url.get(), what, &text, 0) != CURLUE_OK) return std::string();
    const std::unique_ptr<char, decltype(&curl_free)> owner(text, &curl_free);
    return std::string(text);
  };
  const std::string scheme = part(CURLUPART_SCHEME);
  if (scheme != "http" && scheme != "https") return refuse("it is neither http:// nor https://");
  const std::string path = part(CURLUPART_PATH);
  if ((!path.empty() && path != "/") || !part(CURLUPART_QUERY).empty()) return refuse("it has a path");
  if (!part(CURLUPART_USER).empty()) return refuse("it contains a user: give the user with the key user");
  const std::string host = part(CURLUPART_HOST);
  const bool loopback = host.starts_with("127.") || host == "localhost" || host == "[::1]";
  std::string text = endpoint;
  while (text.ends_with('/')) text.pop_back();
  return Url{text, scheme == "http" && !loopback};
}

Result<void> check_pem(const std::string& path, std::string_view what) {
  if (path.empty()) return {};
  std::ifstream file(path);
  if (!file) return fail_errno(errno, fmt::format("etcd {} file {} cannot be read", what, path));
  std::string text(65536, '\0');
  file.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (text.find("-----BEGIN ") == std::string::npos) {
    return fail(EINVAL,
                fmt::format("etcd {} file {} has nothing in PEM format: name another file", what, path));
  }
  return {};
}

// Etcd answered and will always refuse this request; another endpoint would answer the same.
bool final_answer(Code code) {
  switch (code) {
    case Code::kNone:
    case Code::kCanceled:
    case Code::kUnknown:
    case Code::kDeadlineExceeded:
    case Code::kInternal:
    case Code::kUnavailable:
      return false;
    default:
      return true;
  }
}

TlsFiles tls_of(const EtcdConfig& config) {
  return {config.ca_file, config.cert_file, config.key_file};
}

HttpBounds bounds_of(const EtcdConfig& config) {
  return {config.answer_mib, config.event_mib};
}

bool token_refused(const CallFailure& failure) {
  return failure.code == Code::kUnauthenticated ||
         failure.sentence.find("user name is empty") != std::string::npos ||
         failure.sentence.find("revision of auth store is old") != std::string::npos;
}

}  // namespace

// A session from the pool, for one call.
class EtcdClient::Borrowed {
 public:
  explicit Borrowed(EtcdClient& client) : client_(client) {
    const std::scoped_lock lock(client.pool_mutex_);
    if (client.idle_.empty()) {
      session_ = std::make_unique<HttpSession>(tls_of(client.config_), bounds_of(client.config_));
    } else {
      session_ = std::move(client.idle_.back());
      client.idle_.pop_back();
    }
    if (client.interrupted_) session_->interrupt();
    client.busy_.push_back(session_.get());
  }
  ~Borrowed() {
    const std::scoped_lock lock(client_.pool_mutex_);
    std::erase(client_.busy_, session_.get());
    if (client_.idle_.size() < kMaxIdleSessions) client_.idle_.push_back(std::move(session_));
  }
  Borrowed(const Borrowed&) = delete;
  Borrowed& operator=(const Borrowed&) = delete;

  HttpSession& operator*() { return *session_; }

 private:
  EtcdClient& client_;
  std::unique_ptr<HttpSession> session_;
};

Result<std::unique_ptr<EtcdClient>> EtcdClient::create(const EtcdConfig& config) {
  EtcdConfig checked = config;
  checked.endpoints.clear();
  bool plain = false;
  for (const std::string& endpoint : config.endpoints) {
    auto url = parse_endpoint(endpoint);
    if (!url) return Failure(url.error());
    plain = plain || url->plain_to_others;
    checked.endpoints.push_back(std::move(url->text));
  }
  if (checked.endpoints.empty())
    return fail(EINVAL, "etcd has no endpoint: name one like http://10.0.0.1:2379");
  if (config.cert_file.empty() != config.key_file.empty()) {
    return fail(EINVAL, "etcd: a client certificate and its key belong together: name both or none");
  }
  for (const auto& [file, what] :
       {std::pair{config.ca_file, "CA"}, std::pair{config.cert_file, "certificate"},
        std::pair{config.key_file, "key"}}) {
    if (auto readable = check_pem(file, what); !readable) return Failure(readable.error());
  }
  if (plain && !config.user.empty()) {
    log::warn("etcd: the password of user '{}' goes over the network in the clear: use https:// endpoints",
              config.user);
  }
  return std::unique_ptr<EtcdClient>(new EtcdClient(std::move(checked)));
}

EtcdClient::EtcdClient(EtcdConfig config) : config_(std::move(config)) {
  for (const std::string& url : config_.endpoints) endpoints_.push_back(std::make_unique<Endpoint>(url));
}

void EtcdClient::failed(std::size_t endpoint) {
  ++endpoints_[endpoint]->failures;
  current_.compare_exchange_strong(endpoint, (endpoint + 1) % endpoints_.size());
}

void EtcdClient::interrupt() {
  const std::scoped_lock lock(pool_mutex_);
  interrupted_ = true;
  for (HttpSession* session : busy_) session->interrupt();
  for (const auto& session : idle_) session->interrupt();
}

Outcome<void> EtcdClient::call(const Call& call, const Accept& accept) {
  const SteadyTime deadline = std::chrono::steady_clock::now() + call.timeout;
  // An endpoint that accepts the connection but is silent must leave time for the others.
  const milliseconds share =
      call.repeat == Repeat::kNo
          ? call.timeout
          : std::max(kMinTry, call.timeout / static_cast<std::int64_t>(endpoints_.size()));
  Borrowed session(*this);
  CallFailure failure;
  for (std::size_t tried = 0; tried < endpoints_.size(); ++tried) {
    const std::size_t at = current_;
    const auto done = call_at(*session, *endpoints_[at], call, std::min(share, until(deadline)), accept);
    if (done || final_answer(done.error().code)) return done;
    failed(at);
    failure.code = done.error().code;
    failure.maybe_done = done.error().maybe_done;
    failure.sentence += (failure.sentence.empty() ? "" : "; ") + done.error().sentence;
    if (call.repeat == Repeat::kNo && failure.maybe_done) break;
    if (std::chrono::steady_clock::now() >= deadline) break;
  }
  return tl::unexpected(std::move(failure));
}

Outcome<void> EtcdClient::call_at(HttpSession& session, const Endpoint& endpoint, const Call& call,
                                  milliseconds timeout, const Accept& accept) {
  if (config_.user.empty()) return post(session, endpoint, call, "", timeout, accept);
  const SteadyTime deadline = std::chrono::steady_clock::now() + timeout;
  for (int attempt = 0;; ++attempt) {
    const auto used = token(session, endpoint, until(deadline));
    if (!used) return tl::unexpected(used.error());
    auto done = post(session, endpoint, call, *used, until(deadline), accept);
    if (done || attempt == 1 || !token_refused(done.error())) return done;
    forget_token(*used);
  }
}

Outcome<std::string> EtcdClient::token(HttpSession& session, const Endpoint& endpoint, milliseconds timeout) {
  {
    const std::scoped_lock lock(token_mutex_);
    if (!token_.empty()) return token_;
  }
  const std::string body = authenticate_request(config_.user, config_.password);
  std::string got;
  const auto done = post(session, endpoint, {"auth/authenticate", body}, "", timeout,
                         [&](std::string_view answer) -> Result<void> {
                           auto parsed = parse_authenticate(answer);
                           if (!parsed) return Failure(parsed.error());
                           got = std::move(*parsed);
                           return {};
                         });
  if (!done) {
    // Authentication is not enabled (yet), so no token is needed.
    if (done.error().code == Code::kFailedPrecondition) return std::string();
    CallFailure failure = done.error();
    failure.maybe_done = false;
    return tl::unexpected(std::move(failure));
  }
  const std::scoped_lock lock(token_mutex_);
  token_ = got;
  return got;
}

void EtcdClient::forget_token(const std::string& token) {
  const std::scoped_lock lock(token_mutex_);
  if (token_ == token) token_.clear();
}

Outcome<void> EtcdClient::post(HttpSession& session, const Endpoint& endpoint, const Call& call,
                               const std::string& token, milliseconds timeout, const Accept& accept) {
  const auto answer = session.post({.url = fmt::format("{}/v3/{}", endpoint.url, call.path),
                                    .body = call.body,
                                    .authorization = token,
                                    .timeout = timeout,
                                    .fresh_connection = call.repeat == Repeat::kNo});
  const auto failure = [&](Code code, bool maybe_done, std::string_view reason) {
    return tl::unexpected(CallFailure{code, maybe_done, fmt::format("etcd {}: {}", endpoint.url, reason)});
  };
  if (!answer) return failure(Code::kNone, answer.error().sent, answer.error().reason);
  std::string reason = fmt::format("it answered HTTP status {} (is it an etcd?)", answer->status);
  if (answer->status == 200) {
    const auto accepted = accept(answer->body);
    if (accepted) return {};
    reason = accepted.error().message;
  }
  // The keep-alive's answer is a stream of one message, so its errors have the status 200.
  if (const auto error = parse_error(answer->body)) {
    return failure(error->code, !final_answer(error->code), error->message);
  }
  return failure(Code::kNone, true, reason);
}

namespace {

// Stores the result of `parse` in `into`.
template <typename T, typename Parse>
auto keep(T& into, Parse parse) {
  return [&into, parse](std::string_view body) -> Result<void> {
    auto parsed = parse(body);
    if (!parsed) return Failure(parsed.error());
    into = std::move(*parsed);
    return {};
  };
}

}  // namespace

Outcome<Range> EtcdClient::read_all() {
  Range all;
  std::optional<std::string> after;
  for (int page = 0; page < kMaxPages; ++page) {
    const std::string body = range_request(config_.prefix, after, kPageRecords, all.header.revision);
    Range got;
    const auto done =
        call({"kv/range", body},
             keep(got, [&](std::string_view text) { return parse_range(config_.prefix, text); }));
    if (!done) return tl::unexpected(done.error());
    if (page == 0) all.header = got.header;
    const bool last = !got.more || got.records.empty();
    if (!last) after = got.records.back().key;
    std::move(got.records.begin(), got.records.end(), std::back_inserter(all.records));
    if (last) return all;
  }
  return tl::unexpected(
      CallFailure{Code::kNone, false,
                  fmt::format("etcd {}: there are more than {} records below {}: remove those "
                              "that are not this product's",
                              endpoints_[current_]->url, kMaxPages * kPageRecords, config_.prefix)});
}

Outcome<Header> EtcdClient::check_revision(std::int64_t revision) {
  const std::string body = range_request(config_.prefix, std::nullopt, 0, revision);
  Range got;
  const auto done = call({"kv/range", body},
                         keep(got, [&](std::string_view text) { return parse_range(config_.prefix, text); }));
  if (!done) return tl::unexpected(done.error());
  return got.header;
}

Outcome<bool> EtcdClient::commit(const std::string& txn_request) {
  bool held = false;
  const auto done = call({"kv/txn", txn_request, Repeat::kNo}, keep(held, &parse_txn));
  if (!done) return tl::unexpected(done.error());
  return held;
}

Outcome<Status> EtcdClient::status() {
  const std::string body = "{}";
  Status status;
  const auto done = call({"maintenance/status", body}, keep(status, &parse_status));
  if (!done) return tl::unexpected(done.error());
  return status;
}

Outcome<void> EtcdClient::compact(std::int64_t revision) {
  const std::string body = compaction_request(revision);
  return call({"kv/compaction", body}, [](std::string_view) -> Result<void> { return {}; });
}

Outcome<LeaseState> EtcdClient::grant(std::uint32_t ttl_s) {
  const std::string body = grant_request(ttl_s);
  LeaseState lease;
  const auto done = call({"lease/grant", body}, keep(lease, &parse_grant));
  if (!done) return tl::unexpected(done.error());
  return lease;
}

Outcome<LeaseState> EtcdClient::keep_alive(std::int64_t lease, milliseconds timeout) {
  const std::string body = lease_request(lease);
  LeaseState state;
  const auto done = call({"lease/keepalive", body, Repeat::kYes, timeout}, keep(state, &parse_keep_alive));
  if (!done) return tl::unexpected(done.error());
  return state;
}

Outcome<void> EtcdClient::revoke(std::int64_t lease, milliseconds timeout) {
  HttpSession session(tls_of(config_), bounds_of(config_));
  const std::string body = lease_request(lease);
  return call_at(session, *endpoints_[current_], {"lease/revoke", body}, timeout,
                 [](std::string_view) -> Result<void> { return {}; });
}

CallFailure EtcdClient::watch(std::int64_t first_revision, const std::function<bool(WatchLine)>& on_line,
                              const std::function<bool()>& keep_on) {
  const std::size_t at = current_;
  const Endpoint& endpoint = *endpoints_[at];
  const std::uint64_t failures = endpoint.failures;
  Borrowed session(*this);
  const auto failure = [&](Code code, std::string_view reason) {
    return CallFailure{code, false, fmt::format("etcd {}: {}", endpoint.url, reason)};
  };

  std::string used;
  if (!config_.user.empty()) {
    auto got = token(*session, endpoint, kCallTimeout);
    if (!got) {
      failed(at);
      return got.error();
    }
    used = std::move(*got);
  }
  const auto opened = std::chrono::steady_clock::now();
  bool created = false;
  std::string cut;
  Code code = Code::kNone;
  const auto take = [&](std::string_view text) {
    auto line = parse_watch(config_.prefix, text);
    if (!line) {
      const auto error = parse_error(text);
      // A repetition would bring the same; the caller reads everything.
      code = error ? error->code : Code::kOutOfRange;
      cut = error ? error->message : line.error().message;
      return false;
    }
    created = created || line->created;
    if (line->canceled) {
      forget_token(used);
      code = line->compacted ? Code::kOutOfRange : Code::kCanceled;
      cut = line->compacted ? "the revision from which the watch would continue is compacted"
                            : line->cancel_reason;
      return false;
    }
    return on_line(std::move(*line));
  };
  const auto keep = [&] {
    if (!created && std::chrono::steady_clock::now() - opened > kCallTimeout) {
      cut = "it did not begin to watch in time";
    } else if (endpoint.failures != failures) {
      cut = "it does not answer any more";
    }
    return cut.empty() && keep_on();
  };
  const std::string body = watch_request(config_.prefix, first_revision);
  const auto ended =
      (*session).stream({.url = endpoint.url + "/v3/watch", .body = body, .authorization = used}, take, keep);
  if (code != Code::kOutOfRange && endpoint.failures == failures) failed(at);
  if (!cut.empty()) return failure(code, cut);
  if (!ended) return failure(Code::kNone, ended.error().reason);
  if (const auto error = parse_error(ended->body)) return failure(error->code, error->message);
  return failure(Code::kNone, "it ended the watch");
}

}  // namespace pvrdma::control::etcd
