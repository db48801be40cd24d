#include "support/served_host.h"

#include <cstdlib>
#include <filesystem>

#include "base/log.h"
#include "guestmem/sigbus.h"

namespace pvrdma::test {
namespace {

std::string make_directory() {
  std::string path = (std::filesystem::temp_directory_path() / "pvrdma-test-XXXXXX").string();
  if (::mkdtemp(path.data()) == nullptr) throw std::runtime_error("no temporary directory at " + path);
  return path;
}

// As pvrdmad's main() does: a guest may shrink its memory file.
void install_sigbus_handler_once() {
  static const bool installed = (must(guestmem::install_sigbus_handler()), true);
  (void)installed;
}

}  // namespace

AdapterService::AdapterService(const device::AdapterConfig& config, const std::string& socket_path,
                               fabric::Switch& fabric_switch, shard::Loop& loop, const Clock& clock)
    : loop_(loop),
      port_(config.name, fabric_switch),
      adapter_(must(device::Adapter::create(config, port_, clock))),
      server_(must(vfio_user::Server::listen(socket_path, *adapter_))) {
  port_.attach(adapter_->engine());
  must(loop_.watch(server_->listen_fd(), shard::Interest::kRead, *this));
  loop_.add(*this);
}

AdapterService::~AdapterService() {
  loop_.remove(*this);
  if (watched_fd_ >= 0) loop_.unwatch(watched_fd_);
  loop_.unwatch(server_->listen_fd());
  server_.reset();
  port_.detach();
}

void AdapterService::on_fd_ready(int fd, shard::Readiness ready) {
  if (fd == server_->listen_fd()) {
    server_->on_listen_ready();
  } else {
    server_->on_connection_ready(ready.readable, ready.writable);
  }
  follow_connection();
}

void AdapterService::follow_connection() {
  const int fd = server_->connection_fd();
  if (fd != watched_fd_) {
    if (watched_fd_ >= 0) loop_.unwatch(watched_fd_);
    watched_fd_ = fd;
    waits_to_write_ = false;
    if (fd >= 0) must(loop_.watch(fd, shard::Interest::kRead, *this));
  }
  if (fd >= 0 && server_->wants_write() != waits_to_write_) {
    waits_to_write_ = server_->wants_write();
    loop_.change(fd, waits_to_write_ ? shard::Interest::kWrite : shard::Interest::kRead);
  }
}

ServedHost::ServedHost(const TestbenchOptions& options)
    : directory_(make_directory()),
      loop_(must(shard::Loop::create({}, clock_))),
      switch_(options.transport != nullptr ? *options.transport : local_, clock_) {
  install_sigbus_handler_once();
  if (std::getenv("PVRDMA_TEST_LOG") == nullptr) log::set_level(log::Level::kError);
  for (std::uint32_t index = 0; index < options.adapter_count; ++index) {
    const device::AdapterConfig config = adapter_config(index, options);
    paths_.push_back(directory_ + "/" + config.name + ".sock");
    services_.push_back(std::make_unique<AdapterService>(config, paths_.back(), switch_, *loop_, clock_));
  }
  thread_ = std::thread([this] { loop_->run(); });
}

ServedHost::~ServedHost() {
  loop_->stop();
  thread_.join();
  services_.clear();
  std::filesystem::remove_all(directory_);
}

}  // namespace pvrdma::test
