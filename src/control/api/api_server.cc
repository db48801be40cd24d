#include "control/api/api_server.h"

#include <cerrno>
#include <fmt/core.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <thread>
#include <unistd.h>
#include <utility>

#include "control/api/dispatcher.h"
#include "control/api/routes.h"
#include "control/api/tls_listener.h"
#include "control/socket_file.h"

namespace pvrdma::control {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 64;
constexpr time_t kIdleSeconds = 1;  // a client that asks nothing holds one of few threads
constexpr time_t kSlowSeconds = 2;

class UnixListener final : public Dispatcher {
 public:
  explicit UnixListener(const Router& router) : Dispatcher(router) {
    set_address_family(AF_UNIX);
    // bind() takes the file's mode from the socket's.
    set_socket_options([](int fd) { ::fchmod(fd, kSocketMode); });
    new_task_queue = [] { return new httplib::ThreadPool(ApiServer::kThreads); };
    // One request a connection: what a client wrote beyond a refused one is never taken for the next.
    set_keep_alive_max_count(1);
    set_keep_alive_timeout(kIdleSeconds);
    set_read_timeout(kSlowSeconds);
    set_write_timeout(kSlowSeconds);
  }

  // The library closes its listening socket only in stop(), and stop() does nothing before it runs.
  ~UnixListener() override {
    if (const int fd = svr_sock_.exchange(-1); fd >= 0) ::close(fd);
  }

  // The library's backlog is 5, and on a UNIX socket a connect beyond it fails at once.
  bool widen_backlog() { return ::listen(svr_sock_, kBacklog) == 0; }
};

}  // namespace

struct ApiServer::Impl {
  explicit Impl(const ApiParts& parts) : router_(make_router(parts)), unix_(router_) {}

  const Router router_;
  UnixListener unix_;
  std::optional<SocketFile> file_;
  std::unique_ptr<TlsListener> tcp_;  // null: not wanted
  std::thread thread_;
};

Result<std::unique_ptr<ApiServer>> ApiServer::listen(const std::string& path, std::string version,
                                                     SnapshotSource& source, AdapterControl& control,
                                                     Plane* plane, const std::optional<ApiTcpConfig>& tcp) {
  if (auto room = SocketFile::make_room(path); !room) return Failure(std::move(room).error());
  auto impl = std::make_unique<Impl>(ApiParts{std::move(version), source, control, plane});
  errno = 0;
  constexpr int kAnyPort = 1;  // without meaning for a UNIX socket, but 0 asks for a free one
  if (!impl->unix_.bind_to_port(path, kAnyPort) || !impl->unix_.widen_backlog()) {
    const int code = errno;
    return fail(
        code, fmt::format("API socket {}: cannot be bound ({}): create its directory, change the directory's "
                          "owner or choose another path",
                          path, std::generic_category().message(code)));
  }
  impl->file_.emplace(path);
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
