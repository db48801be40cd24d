#include "control/api/tls_listener.h"

#include <array>
#include <cerrno>
#include <condition_variable>
#include <deque>
#include <fmt/core.h>
#include <mutex>
#include <netinet/in.h>
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
#include "tls/context.h"
#include "tls/secret.h"

namespace pvrdma::control {
namespace {

constexpr int kBacklog = 64;
constexpr int kAcceptPauseMs = 100;  // when the process has no file descriptor left

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

bool has_token(const httplib::Request& request, const std::string& token) {
  constexpr std::string_view kScheme = "Bearer ";
  if (request.get_header_value_count("Authorization") != 1) return false;
  const std::string given = request.get_header_value("Authorization");
  return given.size() >= kScheme.size() && ::strncasecmp(given.data(), kScheme.data(), kScheme.size()) == 0 &&
         tls::is_same_secret(std::string_view(given).substr(kScheme.size()), token);
}

// Where a request's bytes meet the router; the library's own sockets are not used.
class Requests final : public Dispatcher {
 public:
  Requests(const Router& router, std::string token, const tls::Context& context)
      : Dispatcher(
            router,
            [&context](const std::string& name) {
              return is_no_dns_name(name) || context.is_certified_as(name);
            },
            [token = std::move(token)](const httplib::Request& request,
                                       httplib::Response& response) -> std::optional<Reply> {
              if (has_token(request, token)) return std::nullopt;
              response.set_header("WWW-Authenticate", "Bearer realm=\"pvrdmad\"");
              return refuse(401,
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
  Impl(const ApiTcpConfig& config, const Router& router, std::unique_ptr<tls::Context> context, Fd fd)
      : context_(std::move(context)),
        requests_(router, config.token, *context_),
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
    auto secure = context_->server(std::move(connection));
    if (!secure) return;
    const TlsLimits limits{
        .silence = kSilence, .read = kRequestTime, .write = kRequestTime, .read_bytes_max = kRequestBytesMax};
    TlsStream stream(*std::move(secure), limits, closing_);
    if (!stream.handshake()) return;
    requests_.answer_one(stream);
    stream.finish();
  }

  const std::unique_ptr<tls::Context> context_;
  Requests requests_;
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
  auto context = tls::Context::server_only(config.certificate, config.key);
  if (!context) return fail(context.error().code, "[api] " + context.error().message);
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
