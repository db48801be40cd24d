#include "api/api_server.h"

#include <utility>

#include "api/client_stream.h"
#include "api/connection_threads.h"
#include "api/dispatcher.h"
#include "api/tls_listener.h"
#include "base/unix_listener.h"

namespace pvrdma::api {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 64;
// A client that sends slowly, or sends nothing, occupies one of a few threads, so its time is limited.
constexpr StreamLimits kLimits{.silence = std::chrono::seconds(2),
                               .read = std::chrono::seconds(10),
                               .write = std::chrono::seconds(10),
                               .read_bytes_max = kSkippedBytesMax + kBodyBytesMax};

}  // namespace

struct ApiServer::Impl {
  explicit Impl(const ApiParts& parts)
      : router_(std::make_shared<const Router>(make_router(parts))),
        requests_(*router_, is_no_dns_name),
        threads_("API", kThreads,
                 [this](ConnectionQueue::Connection connection, const std::atomic<bool>& closing) {
                   PlainClientStream stream(std::move(connection.socket), kLimits, closing);
                   requests_.answer_one(stream, connection.client);
                   stream.finish();
                 }) {}

  const std::shared_ptr<const Router> router_;
  Dispatcher requests_;
  std::unique_ptr<UnixListener> listener_;
  ConnectionThreads threads_;
  std::unique_ptr<TlsListener> tcp_;  // null: TCP is off
};

Result<std::unique_ptr<ApiServer>> ApiServer::listen(const std::string& path, const ApiParts& parts,
                                                     const std::optional<control::ApiTcpConfig>& tcp) {
  auto unix_listener =
      UnixListener::listen(path, {.what = "API socket", .mode = kSocketMode, .backlog = kBacklog});
  if (!unix_listener) return Failure(std::move(unix_listener).error());
  auto impl = std::make_unique<Impl>(parts);
  impl->listener_ = *std::move(unix_listener);
  if (tcp) {
    auto listener = TlsListener::listen(*tcp, *impl->router_);
    if (!listener) return Failure(std::move(listener).error());
    impl->tcp_ = *std::move(listener);
  }
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() = default;

std::shared_ptr<const Router> ApiServer::router() const {
  return impl_->router_;
}

void ApiServer::start() {
  if (impl_->tcp_) impl_->tcp_->start();
  impl_->threads_.start(impl_->listener_->fd());
}

std::uint16_t ApiServer::tcp_port() const {
  return impl_->tcp_ ? impl_->tcp_->port() : std::uint16_t{0};
}

std::shared_ptr<tls::Context> ApiServer::tls() const {
  return impl_->tcp_ ? impl_->tcp_->tls() : nullptr;
}

}  // namespace pvrdma::api
