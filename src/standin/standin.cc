#include "standin/standin.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/descriptor_limit.h"
#include "base/log.h"
#include "preload/wire.h"
#include "standin/tree.h"

namespace pvrdma::standin {
namespace {

constexpr int kBacklog = 64;
constexpr std::size_t kProcessesMax = 1024;

}  // namespace

Result<std::unique_ptr<StandIn>> StandIn::create(StandInOptions options) {
  auto adapter = Adapter::open(options.socket, options.addresses, options.gateway_mac);
  if (!adapter) return Failure(std::move(adapter.error()));
  auto cm = CmService::create(**adapter);
  if (!cm) return Failure(std::move(cm.error()));
  driver::Device& device = (*adapter)->device();
  const auto port = device.query_port();
  if (!port) return Failure(port.error());
  const std::string tree = options.folder + "/" + PVRDMA_WIRE_TREE_NAME;
  const TreeFacts facts{device.version(), device.caps(), *port, (*adapter)->gids()};
  if (auto written = write_tree(tree, facts); !written) return Failure(std::move(written.error()));
  // Last, because pvrdma-run waits for the socket.
  auto listener = UnixListener::listen(options.folder + "/" + PVRDMA_WIRE_SOCKET_NAME,
                                       {.what = "stand-in's socket",
                                        .mode = options.group ? mode_t{0660} : mode_t{0600},
                                        .backlog = kBacklog,
                                        .type = SOCK_SEQPACKET,
                                        .owner = {.user = std::nullopt, .group = options.group}});
  if (!listener) return Failure(std::move(listener.error()));
  if (!(*adapter)->is_mapped()) {
    log::warn(
        "standin: the adapter's doorbells are trapped, so each of a program's posts is a message: with "
        "doorbells = \"mapped\" it is many times faster");
  }
  return std::unique_ptr<StandIn>(
      new StandIn(std::move(options), std::move(*adapter), std::move(*cm), std::move(*listener)));
}

Duration StandIn::patience() const {
  // What programs have left of their connections ends by itself, and their peers hear of it.
  const bool is_used = !processes_.empty() || cm_->manager().orphan_count() != 0;
  if (!options_.idle_end || is_used) return Duration::max();
  return std::max(Duration::zero(), last_used_ + *options_.idle_end - Instant::now());
}

int StandIn::poll_timeout_ms() const {
  Duration left = patience();
  if (!adapter_->is_lost() && cm_->deadline() != Instant::never())
    left = std::min(left, std::max(Duration::zero(), cm_->deadline() - Instant::now()));
  if (left == Duration::max()) return -1;
  return static_cast<int>(std::chrono::ceil<std::chrono::milliseconds>(left).count());
}

void StandIn::serve_connections() {
  if (adapter_->take_own_notification()) cm_->take_datagrams();
  cm_->run_timers();
}

void StandIn::lose_adapter() {
  listener_.reset();  // another stand-in may take the folder
  for (Process& process : processes_) process.wake();
}

bool StandIn::is_kept() const {
  return ::access((options_.folder + "/keep").c_str(), F_OK) == 0;
}

End StandIn::run(int stop_fd) {
  std::vector<pollfd> watched;
  while (true) {
    const driver::Device& device = adapter_->device();
    const bool has_room = processes_.size() < kProcessesMax;
    watched = {{stop_fd, POLLIN, 0},
               {adapter_->is_lost() ? -1 : adapter_->socket_fd(), POLLRDHUP, 0},
               {device.event_fd(abi::Vector::kNotification), POLLIN, 0},
               {device.event_fd(abi::Vector::kAsyncEvent), POLLIN, 0},
               {has_room && listener_ ? listener_->fd() : -1, POLLIN, 0}};
    const std::size_t first_process = watched.size();
    for (const Process& process : processes_) watched.push_back({process.fd(), POLLIN, 0});
    if (::poll(watched.data(), watched.size(), poll_timeout_ms()) < 0 && errno != EINTR) return End::kStopped;

    if (watched[0].revents != 0) return End::kStopped;
    if (adapter_->socket_fd() < 0 || watched[1].revents != 0) adapter_->set_lost();
    if ((watched[2].revents | watched[3].revents) != 0) adapter_->dispatch_events();
    auto process = processes_.begin();
    for (std::size_t i = first_process; i < watched.size(); ++i) {
      const bool goes_on = watched[i].revents == 0 || process->serve_one();
      process = goes_on ? std::next(process) : processes_.erase(process);
      if (!goes_on) last_used_ = Instant::now();
    }
    serve_connections();  // the commands of processes read notifications, too
    if (adapter_->is_lost()) lose_adapter();
    if (listener_ && watched[4].revents != 0) take_process();
    if (adapter_->is_lost() && processes_.empty()) return End::kAdapterGone;
    if (patience() == Duration::zero()) {
      if (!is_kept()) return End::kIdle;
      options_.idle_end.reset();
    }
  }
}

void StandIn::take_process() {
  Fd socket(::accept4(listener_->fd(), nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK));
  if (!socket) return;  // it has gone meanwhile
  if (is_of_descriptor_reserve(socket.get())) {
    if (log_.allow(Instant::now()))
      log::warn("standin: a program is refused: too many descriptors are open (raise RLIMIT_NOFILE)");
    return;
  }
  const MemoryFiles allowed = options_.group ? MemoryFiles::kSealed : MemoryFiles::kAny;
  processes_.emplace_back(*adapter_, *cm_, std::move(socket), allowed, log_);
}

}  // namespace pvrdma::standin
