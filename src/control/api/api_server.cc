#include "control/api/api_server.h"

#include <cerrno>
#include <fcntl.h>
#include <thread>
#include <unistd.h>
#include <utility>

#include "base/unix_listener.h"
#include "control/api/dispatcher.h"
#include "control/api/routes.h"
#include "control/api/tls_listener.h"

namespace pvrdma::control {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 64;
constexpr time_t kIdleSeconds = 1;  // a client that asks nothing holds one of few threads
constexpr time_t kSlowSeconds = 2;

class UnixServer final : public Dispatcher {
 public:
  explicit UnixServer(const Router& router) : Dispatcher(router, is_no_dns_name) {
    new_task_queue = [] { return new httplib::ThreadPool(ApiServer::kThreads); };
    // One request a connection: what a client wrote beyond a refused one is never taken for the next.
    set_keep_alive_max_count(1);
    set_keep_alive_timeout(kIdleSeconds);
    set_read_timeout(kSlowSeconds);
    set_write_timeout(kSlowSeconds);
  }

  // The library closes its listening socket only in stop(), and stop() does nothing before it runs.
  ~UnixServer() override {
    if (const int fd = svr_sock_.exchange(-1); fd >= 0) ::close(fd);
  }

  // In place of the library's own bind_to_port(). The library closes what it is given, and accepts without
  // looking whether anybody is there.
  Result<> adopt(const UnixListener& listener) {
    svr_sock_ = ::fcntl(listener.fd(), F_DUPFD_CLOEXEC, 0);
    if (svr_sock_ < 0 || ::fcntl(svr_sock_, F_SETFL, 0) != 0)
      return fail_errno(errno, "API socket " + listener.path());
    return {};
  }
};

}  // namespace

struct ApiServer::Impl {
  explicit Impl(const ApiParts& parts) : router_(make_router(parts)), unix_(router_) {}

  const Router router_;
  std::unique_ptr<UnixListener> listener_;
  UnixServer unix_;
  std::unique_ptr<TlsListener> tcp_;  // null: not wanted
  std::thread thread_;
};

Result<std::unique_ptr<ApiServer>> ApiServer::listen(const std::string& path, std::string version,
                                                     SnapshotSource& source, AdapterControl& control,
                                                     Plane* plane, const std::optional<ApiTcpConfig>& tcp) {
  auto unix_listener =
      UnixListener::listen(path, {.what = "API socket", .mode = kSocketMode, .backlog = kBacklog});
  if (!unix_listener) return Failure(std::move(unix_listener).error());
  auto impl = std::make_unique<Impl>(ApiParts{std::move(version), source, control, plane});
  if (auto adopted = impl->unix_.adopt(**unix_listener); !adopted) return Failure(std::move(adopted).error());
  impl->listener_ = *std::move(unix_listener);
  if (tcp) {
    auto listener = TlsListener::listen(*tcp, impl->router_);
    if (!listener) return Failure(std::move(listener).error());
    impl->tcp_ = *std::move(listener);
  }
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() {
  impl_->tcp_.reset();
  if (!impl_->thread_.joinable()) return;
  impl_->unix_.stop();
  impl_->thread_.join();
}

void ApiServer::start() {
  if (impl_->tcp_) impl_->tcp_->start();
  impl_->thread_ = std::thread([this] { impl_->unix_.listen_after_bind(); });
  // stop() would do nothing until then.
  while (!impl_->unix_.is_running()) std::this_thread::yield();
}

std::uint16_t ApiServer::tcp_port() const {
  return impl_->tcp_ ? impl_->tcp_->port() : std::uint16_t{0};
}

}  // namespace pvrdma::control
