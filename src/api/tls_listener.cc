#include "api/tls_listener.h"

#include <cerrno>
#include <fmt/core.h>
#include <mutex>
#include <netinet/in.h>
#include <optional>
#include <string>
#include <strings.h>
#include <sys/socket.h>
#include <system_error>
#include <utility>

#include "api/client_stream.h"
#include "api/connection_queue.h"
#include "api/connection_threads.h"
#include "api/dispatcher.h"
#include "base/fd.h"
#include "base/log.h"
#include "tls/secret.h"

namespace pvrdma::api {
namespace {

constexpr int kBacklog = 64;

Result<Fd> make_socket(const control::ApiTcpConfig& config) {
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

struct Tokens {
  std::string full;
  std::string read_only;  // empty: there is none
};

std::optional<Role> role_of(const httplib::Request& request, const Tokens& tokens) {
  constexpr std::string_view kScheme = "Bearer ";
  if (request.get_header_value_count("Authorization") != 1) return std::nullopt;
  const std::string header = request.get_header_value("Authorization");
  if (header.size() <= kScheme.size() || ::strncasecmp(header.data(), kScheme.data(), kScheme.size()) != 0)
    return std::nullopt;
  const std::string_view given = std::string_view(header).substr(kScheme.size());
  if (tls::is_same_secret(given, tokens.full)) return Role::kAdministrator;
  if (tls::is_same_secret(given, tokens.read_only)) return Role::kReadOnly;
  return std::nullopt;
}

class Requests final : public Dispatcher {
 public:
  Requests(const Router& router, Tokens tokens, const tls::Context& context)
      : Dispatcher(
            router,
            [&context](const std::string& name) {
              return is_no_dns_name(name) || context.is_certified_as(name);
            },
            [this](const httplib::Request& request, std::string_view client, httplib::Response& response) {
              return role_or_refusal(request, client, response);
            }),
        tokens_(std::move(tokens)) {}

 private:
  Admission role_or_refusal(const httplib::Request& request, std::string_view client,
                            httplib::Response& response) {
    if (const auto role = role_of(request, tokens_)) return *role;
    if (request.has_header("Authorization")) tell_of_wrong_token(client);
    response.set_header("WWW-Authenticate", "Bearer realm=\"pvrdmad\"");
    return refuse(401,
                  "over TCP each request needs the header Authorization: Bearer TOKEN, with what "
                  "[api] token_file holds, or for GET read_token_file");
  }

  void tell_of_wrong_token(std::string_view client) {
    const std::lock_guard lock(mutex_);
    if (wrong_tokens_log_.allow(Instant::now()))
      log::warn("API over TCP: the client at {} gave a wrong token{}", client,
                log::held_back(wrong_tokens_log_));
  }

  const Tokens tokens_;
  std::mutex mutex_;
  log::LogLimiter wrong_tokens_log_{1, std::chrono::seconds(10)};
};

}  // namespace

Result<std::unique_ptr<tls::Context>> make_tls_context(const control::ApiTcpConfig& config) {
  auto context = tls::Context::server_only(config.certificate, config.key);
  if (context) return context;
  Error why = std::move(context).error();
  why.message.insert(0, "[api] ");
  return Failure(std::move(why));
}

struct TlsListener::Impl {
  Impl(const control::ApiTcpConfig& config, const Router& router, std::unique_ptr<tls::Context> context,
       Fd fd)
      : context_(std::move(context)),
        requests_(router, {config.token, config.read_token}, *context_),
        fd_(std::move(fd)),
        threads_("API over TCP", kThreads,
                 [this](ConnectionQueue::Connection connection, const std::atomic<bool>& closing) {
                   serve(std::move(connection), closing);
                 }) {}

  void serve(ConnectionQueue::Connection connection, const std::atomic<bool>& closing) {
    const std::string client = address_of(connection.socket.get());
    auto secure = context_->server(std::move(connection.socket));
    if (!secure) return;
    const StreamLimits limits{
        .silence = kSilence, .read = kRequestTime, .write = kRequestTime, .read_bytes_max = kRequestBytesMax};
    TlsClientStream stream(*std::move(secure), limits, closing);
    if (!stream.handshake()) return;
    requests_.answer_one(stream, client);
    stream.finish();
  }

  const std::shared_ptr<tls::Context> context_;
  Requests requests_;
  const Fd fd_;
  ConnectionThreads threads_;
};

Result<std::unique_ptr<TlsListener>> TlsListener::listen(const control::ApiTcpConfig& config,
                                                         const Router& router) {
  auto context = make_tls_context(config);
  if (!context) return Failure(std::move(context).error());
  auto fd = make_socket(config);
  if (!fd) return Failure(std::move(fd).error());
  return std::unique_ptr<TlsListener>(
      new TlsListener(std::make_unique<Impl>(config, router, *std::move(context), *std::move(fd))));
}

TlsListener::TlsListener(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
TlsListener::~TlsListener() = default;

void TlsListener::start() {
  impl_->threads_.start(impl_->fd_.get());
}

std::shared_ptr<tls::Context> TlsListener::tls() const {
  return impl_->context_;
}

std::uint16_t TlsListener::port() const {
  sockaddr_storage address{};
  socklen_t length = sizeof(address);
  ::getsockname(impl_->fd_.get(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6 ? reinterpret_cast<const sockaddr_in6&>(address).sin6_port
                                             : reinterpret_cast<const sockaddr_in&>(address).sin_port);
}

}  // namespace pvrdma::api
