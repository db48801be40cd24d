#include "control/api/tls_listener.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <fmt/core.h>
#include <mutex>
#include <netinet/in.h>
#include <openssl/crypto.h>
#include <openssl/err.h>
#include <poll.h>
#include <strings.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "base/fd.h"
#include "base/log.h"
#include "base/time.h"
#include "control/api/dispatcher.h"
#include "control/api/tls_stream.h"

namespace pvrdma::control {
namespace {

constexpr int kBacklog = 64;
constexpr int kAcceptPauseMs = 100;  // when the process has no file descriptor left

struct ContextDeleter {
  void operator()(SSL_CTX* context) const { SSL_CTX_free(context); }
};
using Context = std::unique_ptr<SSL_CTX, ContextDeleter>;

Failure fail_file(std::string_view key, const std::string& file) {
  std::array<char, 256> reason{};
  ERR_error_string_n(ERR_get_error(), reason.data(), reason.size());
  return fail(EINVAL, fmt::format("[api] {} {}: {}: give a PEM file that pvrdmad can read", key, file,
                                  reason.data()));
}

// A key with a passphrase must not make the daemon ask at a terminal.
int no_passphrase(char*, int, int, void* was_asked) {
  *static_cast<bool*>(was_asked) = true;
  return -1;
}

Result<void> load_key(SSL_CTX* context, const std::string& path) {
  bool has_passphrase = false;
  SSL_CTX_set_default_passwd_cb(context, no_passphrase);
  SSL_CTX_set_default_passwd_cb_userdata(context, &has_passphrase);
  const bool loaded = SSL_CTX_use_PrivateKey_file(context, path.c_str(), SSL_FILETYPE_PEM) == 1 &&
                      SSL_CTX_check_private_key(context) == 1;
  SSL_CTX_set_default_passwd_cb_userdata(context, nullptr);
  if (loaded) return {};
  if (!has_passphrase) return fail_file("key", path);
  ERR_clear_error();
  return fail(EINVAL, fmt::format("[api] key {} has a passphrase: write one without", path));
}

Result<Context> make_context(const ApiTcpConfig& config) {
  ERR_clear_error();
  Context context(SSL_CTX_new(TLS_server_method()));
  if (!context) return fail(ENOMEM, "OpenSSL has no memory for the API's TLS");
  SSL_CTX_set_min_proto_version(context.get(), TLS1_2_VERSION);
  SSL_CTX_set_options(context.get(), SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION | SSL_OP_NO_TICKET);
  SSL_CTX_set_cipher_list(context.get(),
                          "ECDHE+AESGCM:ECDHE+CHACHA20");  // of TLS 1.2; 1.3 has only good ones
  SSL_CTX_set_session_cache_mode(context.get(), SSL_SESS_CACHE_OFF);
  SSL_CTX_set_mode(context.get(), SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (SSL_CTX_use_certificate_chain_file(context.get(), config.certificate.c_str()) != 1) {
    return fail_file("certificate", config.certificate);
  }
  if (auto loaded = load_key(context.get(), config.key); !loaded) return Failure(std::move(loaded).error());
  return context;
}

Result<Fd> make_socket(const ApiTcpConfig& config) {
  sockaddr_storage address{};
  const socklen_t length = config.address.to_sockaddr(config.port, address);
  Fd fd(::socket(config.address.family(), SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  const int on = 1;
  if (!fd || ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on)) != 0 ||
      ::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), length) != 0 ||
      ::listen(fd.get(), kBacklog) != 0) {
    const int code = errno;
    return fail(code,
                fmt::format("[api] listen {} port {}: {}: give an address of this host and a port that "
                            "is free",
                            config.address.to_string(), config.port, std::generic_category().message(code)));
  }
  return fd;
}

// The comparison takes as long however much of the token is right.
bool has_token(const httplib::Request& request, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (request.get_header_value_count("Authorization") != 1) return false;
  const std::string given = request.get_header_value("Authorization");
  return given.size() == kScheme.size() + token.size() &&
         ::strncasecmp(given.data(), kScheme.data(), kScheme.size()) == 0 &&
         CRYPTO_memcmp(given.data() + kScheme.size(), token.data(), token.size()) == 0;
}

// Where a request's bytes meet the router; the library's own sockets are not used.
class Requests final : public Dispatcher {
 public:
  Requests(const Router& router, std::string token)
      : Dispatcher(router,
                   [token = std::move(token)](const httplib::Request& request,
                                              httplib::Response& response) -> std::optional<Reply> {
                     if (has_token(request, token)) return std::nullopt;
                     response.set_header("WWW-Authenticate", "Bearer realm=\"pvrdmad\"");
                     return refuse(
                         401,
                         "over TCP each request needs the header Authorization: Bearer TOKEN, with what "
                         "[api] token_file holds");
                   }) {}

  void answer_one(httplib::Stream& stream) {
    bool closed = false;
    process_request(stream, /*close_connection=*/true, closed, nullptr);
  }
};

}  // namespace

struct TlsListener::Impl {
  Impl(const ApiTcpConfig& config, const Router& router, Context context, Fd fd)
      : requests_(router, config.token),
        context_(std::move(context)),
        fd_(std::move(fd)),
        wake_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {}

  ~Impl() {
    {
      const std::lock_guard lock(mutex_);
      closing_ = true;
    }
    changed_.notify_all();
    ::eventfd_write(wake_.get(), 1);
    if (acceptor_.joinable()) acceptor_.join();
    for (std::thread& worker : workers_) worker.join();
  }

  void start() {
    for (std::size_t i = 0; i < kThreads; ++i) workers_.emplace_back([this] { work(); });
    acceptor_ = std::thread([this] { accept_all(); });
  }

  void accept_all() {
    while (!closing_) {
      std::array<pollfd, 2> fds{{{fd_.get(), POLLIN, 0}, {wake_.get(), POLLIN, 0}}};
      ::poll(fds.data(), fds.size(), -1);
      if (closing_) return;
      Fd connection(::accept4(fd_.get(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
      if (connection) {
        enqueue(std::move(connection));
      } else if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) {
        if (log_limit_.allow(Instant::now())) {
          log::warn("API over TCP: a connection cannot be accepted: {}",
                    std::generic_category().message(errno));
        }
        ::poll(&fds[1], 1, kAcceptPauseMs);
      }
    }
  }

  void enqueue(Fd connection) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return waiting_.size() < kWaiting || closing_; });
    if (!closing_) waiting_.push_back(std::move(connection));
    lock.unlock();
    changed_.notify_all();
  }

  void work() {
    for (;;) {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return !waiting_.empty() || closing_; });
      if (closing_) return;
      Fd connection = std::move(waiting_.front());
      waiting_.pop_front();
      lock.unlock();
      changed_.notify_all();
      serve(std::move(connection));
    }
  }

  void serve(Fd connection) {
    std::unique_ptr<SSL, SslDeleter> ssl(SSL_new(context_.get()));
    if (!ssl) return;
    const TlsLimits limits{
        .silence = kSilence, .read = kRequestTime, .write = kRequestTime, .read_bytes_max = kRequestBytesMax};
    TlsStream stream(std::move(connection), std::move(ssl), limits, closing_);
    if (!stream.handshake()) return;
    requests_.answer_one(stream);
    stream.finish();
  }

  Requests requests_;
  const Context context_;
  const Fd fd_;
  const Fd wake_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Fd> waiting_;
  std::atomic<bool> closing_{false};
  log::LogLimiter log_limit_{1, std::chrono::seconds(10)};
  std::thread acceptor_;
  std::vector<std::thread> workers_;
};

Result<std::unique_ptr<TlsListener>> TlsListener::listen(const ApiTcpConfig& config, const Router& router) {
  auto context = make_context(config);
  if (!context) return Failure(std::move(context).error());
  auto fd = make_socket(config);
  if (!fd) return Failure(std::move(fd).error());
  return std::unique_ptr<TlsListener>(
      new TlsListener(std::make_unique<Impl>(config, router, *std::move(context), *std::move(fd))));
}

TlsListener::TlsListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsListener::~TlsListener() = default;

void TlsListener::start() {
  impl_->start();
}

std::uint16_t TlsListener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  ::getsockname(impl_->fd_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace pvrdma::control
