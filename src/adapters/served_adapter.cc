#include "adapters/served_adapter.h"

#include <utility>

#include "base/log.h"

namespace pvrdma::adapters {

Result<std::unique_ptr<ServedAdapter>> ServedAdapter::create(const device::AdapterConfig& config,
                                                             const std::string& socket,
                                                             fabric::Switch& fabric_switch, shard::Loop& loop,
                                                             const Clock& clock, ClientObserver* observer) {
  std::unique_ptr<ServedAdapter> served(new ServedAdapter(config.name, fabric_switch, loop, observer));
  auto adapter = device::Adapter::create(config, served->port_, clock);
  if (!adapter) return Failure(std::move(adapter).error());
  served->adapter_ = *std::move(adapter);
  served->port_.attach(served->adapter_->engine());
  auto server = vfio_user::Server::listen(socket, *served->adapter_);
  if (!server) return Failure(std::move(server).error());
  served->server_ = *std::move(server);
  return served;
}

ServedAdapter::ServedAdapter(const std::string& name, fabric::Switch& fabric_switch, shard::Loop& loop,
                             ClientObserver* observer)
    : loop_(loop), observer_(observer), port_(name, fabric_switch) {}

ServedAdapter::~ServedAdapter() {
  if (started_) {
    loop_.remove(*this);
    if (watched_fd_ >= 0) loop_.unwatch(watched_fd_);
    loop_.unwatch(server_->listen_fd());
  }
  server_.reset();
  port_.detach();
}

Result<void> ServedAdapter::start() {
  auto watched = loop_.watch(server_->listen_fd(), shard::Interest::kRead, *this);
  if (!watched) return watched;
  loop_.add(*this);
  started_ = true;
  return {};
}

void ServedAdapter::set_link(bool up) {
  port_.set_link(up);
  adapter_->set_link(up);
}

void ServedAdapter::on_fd_ready(int fd, shard::Readiness ready) {
  if (fd == server_->listen_fd()) {
    server_->on_listen_ready();
  } else {
    server_->on_session_ready(ready.readable, ready.writable);
  }
  follow_connection();
}

void ServedAdapter::follow_connection() {
  watch_connection();
  if (has_client() == had_client_) return;
  had_client_ = has_client();
  if (observer_ != nullptr) observer_->on_client(*this, had_client_);
}

// Clients come and go, and a reply that the socket did not take turns the loop's interest around.
void ServedAdapter::watch_connection() {
  const int fd = server_->session_fd();
  if (fd != watched_fd_) {
    if (watched_fd_ >= 0) loop_.unwatch(std::exchange(watched_fd_, -1));
    if (fd < 0) return;
    watched_for_ = shard::Interest::kRead;
    if (auto watched = loop_.watch(fd, watched_for_, *this); !watched) {
      log::error("adapter {}: its client cannot be served: {}", port_.name(), watched.error().message);
      return;
    }
    watched_fd_ = fd;
  }
  if (fd < 0) return;
  const auto wanted = server_->wants_write() ? shard::Interest::kWrite : shard::Interest::kRead;
  if (wanted == watched_for_) return;
  watched_for_ = wanted;
  loop_.change(fd, wanted);
}

}  // namespace pvrdma::adapters
