#include "control/api_server.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <functional>
#include <httplib.h>
#include <optional>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <system_error>
#include <thread>
#include <utility>

#include "control/json.h"
#include "control/metrics.h"
#include "control/socket_file.h"

namespace pvrdma::control {
namespace {

constexpr mode_t kSocketMode = 0660;
constexpr int kBacklog = 64;
constexpr time_t kIdleSeconds = 1;  // a client that keeps its connection open holds one of few threads
constexpr time_t kSlowSeconds = 2;
constexpr std::size_t kRequestBodyBytesMax = 4096;
constexpr const char* kJsonType = "application/json";
constexpr const char* kMetricsType = "text/plain; version=0.0.4";

class HttpServer final : public httplib::Server {
 public:
  // The library closes its listening socket only in stop(), and stop() does nothing before it runs.
  ~HttpServer() override {
    if (const int fd = svr_sock_.exchange(-1); fd >= 0) ::close(fd);
  }

  // The library's backlog is 5, and on a UNIX socket a connect beyond it fails at once.
  bool widen_backlog() { return ::listen(svr_sock_, kBacklog) == 0; }
};

void refuse(httplib::Response& response, int status, std::string_view sentence) {
  response.status = status;
  response.set_content(error_json(sentence), kJsonType);
}

const AdapterSnapshot* find(const Snapshot& snapshot, std::string_view name) {
  const auto it = std::find_if(snapshot.adapters.begin(), snapshot.adapters.end(),
                               [name](const AdapterSnapshot& adapter) { return adapter.name == name; });
  return it == snapshot.adapters.end() ? nullptr : &*it;
}

void refuse_adapter(httplib::Response& response, std::string_view name) {
  refuse(response, 404, fmt::format("there is no adapter {}: see the list of adapters", name));
}

}  // namespace

struct ApiServer::Impl {
  Impl(std::string version, SnapshotSource& source, AdapterControl& control)
      : version_(std::move(version)), source_(source), control_(control) {}

  using Answer = std::function<void(const Snapshot&, const httplib::Request&, httplib::Response&)>;

  // `answer` on a fresh snapshot.
  httplib::Server::Handler with_snapshot(Answer answer, SnapshotDetail detail = SnapshotDetail::kAdapters) {
    return [this, answer = std::move(answer), detail](const httplib::Request& request,
                                                      httplib::Response& response) {
      const auto snapshot = source_.take_snapshot(detail);
      if (!snapshot) return refuse(response, 503, snapshot.error().message);
      answer(*snapshot, request, response);
    };
  }

  // `render` for the adapter that the query names, or for all.
  Answer filtered(std::string (*render)(const Snapshot&, std::string_view)) {
    return [render](const Snapshot& snapshot, const httplib::Request& request, httplib::Response& response) {
      const std::string adapter = request.get_param_value("adapter");
      if (!adapter.empty() && find(snapshot, adapter) == nullptr) return refuse_adapter(response, adapter);
      response.set_content(render(snapshot, adapter), kJsonType);
    };
  }

  void answer_adapter(const std::string& name, httplib::Response& response) {
    const auto snapshot = source_.take_snapshot(SnapshotDetail::kAdapters);
    if (!snapshot) return refuse(response, 503, snapshot.error().message);
    const AdapterSnapshot* adapter = find(*snapshot, name);
    if (adapter == nullptr) return refuse_adapter(response, name);
    response.set_content(adapter_json(*adapter), kJsonType);
  }

  void route() {
    http_.Get("/v1/version", [this](const httplib::Request&, httplib::Response& response) {
      response.set_content(version_json(version_), kJsonType);
    });
    http_.Get("/v1/adapters", with_snapshot([](const Snapshot& snapshot, const httplib::Request&,
                                               httplib::Response& response) {
                response.set_content(adapters_json(snapshot), kJsonType);
              }));
    http_.Get("/v1/adapters/([^/]+)", [this](const httplib::Request& request, httplib::Response& response) {
      answer_adapter(request.matches[1], response);
    });
    http_.Put("/v1/adapters/([^/]+)/link",
              [this](const httplib::Request& request, httplib::Response& response) {
                const auto link = parse_link(request.body);
                if (!link) return refuse(response, 400, link.error().message);
                const auto done = control_.set_link(request.matches[1], *link);
                if (!done)
                  return refuse(response, done.error().code == ENOENT ? 404 : 503, done.error().message);
                answer_adapter(request.matches[1], response);
              });
    http_.Get("/v1/qps", with_snapshot(filtered(qps_json), SnapshotDetail::kAdaptersAndQps));
    http_.Get("/v1/stats", with_snapshot(filtered(stats_json)));
    http_.Get("/metrics", with_snapshot([this](const Snapshot& snapshot, const httplib::Request&,
                                               httplib::Response& response) {
                response.set_content(metrics_text(snapshot, version_), kMetricsType);
              }));
    http_.set_error_handler([](const httplib::Request& request, httplib::Response& response) {
      if (response.body.empty()) {
        refuse(response, response.status,
               fmt::format("{} {} is nothing this API knows: see pvrdmad(8)", request.method, request.path));
      }
    });
  }

  void configure() {
    http_.set_address_family(AF_UNIX);
    // bind() takes the file's mode from the socket's.
    http_.set_socket_options([](int fd) { ::fchmod(fd, kSocketMode); });
    http_.new_task_queue = [] { return new httplib::ThreadPool(kThreads); };
    http_.set_keep_alive_timeout(kIdleSeconds);
    http_.set_read_timeout(kSlowSeconds);
    http_.set_write_timeout(kSlowSeconds);
    http_.set_payload_max_length(kRequestBodyBytesMax);
  }

  const std::string version_;
  SnapshotSource& source_;   // borrowed
  AdapterControl& control_;  // borrowed
  HttpServer http_;
  std::optional<SocketFile> file_;
  std::thread thread_;
};

Result<std::unique_ptr<ApiServer>> ApiServer::listen(const std::string& path, std::string version,
                                                     SnapshotSource& source, AdapterControl& control) {
  if (auto room = SocketFile::make_room(path); !room) return Failure(std::move(room).error());
  auto impl = std::make_unique<Impl>(std::move(version), source, control);
  impl->configure();
  impl->route();
  errno = 0;
  constexpr int kAnyPort = 1;  // without meaning for a UNIX socket, but 0 asks for a free one
  if (!impl->http_.bind_to_port(path, kAnyPort) || !impl->http_.widen_backlog()) {
    const int code = errno;
    return fail(
        code, fmt::format("API socket {}: cannot be bound ({}): create its directory, change the directory's "
                          "owner or choose another path",
                          path, std::generic_category().message(code)));
  }
  impl->file_.emplace(path);
  return std::unique_ptr<ApiServer>(new ApiServer(std::move(impl)));
}

ApiServer::ApiServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}

ApiServer::~ApiServer() {
  if (!impl_->thread_.joinable()) return;
  impl_->http_.stop();
  impl_->thread_.join();
}

void ApiServer::start() {
  impl_->thread_ = std::thread([this] { impl_->http_.listen_after_bind(); });
  // stop() would do nothing until then.
  while (!impl_->http_.is_running()) std::this_thread::yield();
}

}  // namespace pvrdma::control
