#include "adapters/served_adapter.h"

#include <new>
#include <utility>

#include "base/log.h"

namespace pvrdma::adapters {

Result<std::unique_ptr<ServedAdapter>> ServedAdapter::create(const AdapterSetup& setup,
                                                             fabric::Switch& fabric_switch, shard::Loop& loop,
                                                             const Clock& clock, ClientObserver* observer,
                                                             Reaper* reaper) {
  std::unique_ptr<ServedAdapter> served(new ServedAdapter(setup, fabric_switch, loop, clock, observer));
  // Two queues: memory goes back although a descriptor cannot be closed.
  const auto open_queue = [reaper] { return reaper != nullptr ? reaper->open_queue() : nullptr; };
  auto adapter = device::Adapter::create(setup.device, served->port_, clock, open_queue());
  if (!adapter) return Failure(std::move(adapter).error());
  served->adapter_ = *std::move(adapter);
  served->port_.attach(served->adapter_->engine());
  auto server =
      vfio_user::Server::listen(setup.socket, *served->adapter_,
                                {.queue = open_queue(),
                                 .clock = &clock,
                                 .before_close = [&served = *served] { served.unwatch_connection(); },
                                 .owner = setup.owner});
  if (!server) return Failure(std::move(server).error());
  served->server_ = *std::move(server);
  return served;
}

ServedAdapter::ServedAdapter(const AdapterSetup& setup, fabric::Switch& fabric_switch, shard::Loop& loop,
                             const Clock& clock, ClientObserver* observer)
    : loop_(loop),
      clock_(clock),
      observer_(observer),
      port_(setup.device.name,
            {.mac = setup.device.mac,
             .addresses = setup.addresses,
             .may_reach_natives = setup.may_reach_natives},
            fabric_switch) {}

ServedAdapter::~ServedAdapter() {
  if (started_) loop_.remove(*this);
  unwatch_connection();
  if (listener_watched_) loop_.unwatch(server_->listen_fd());
  server_.reset();
  stop_injecting();
  port_.detach();
}

Result<void> ServedAdapter::start() {
  auto watched = loop_.watch(server_->listen_fd(), shard::Interest::kRead, *this);
  if (!watched) return watched;
  listener_watched_ = true;
  loop_.add(*this);
  started_ = true;
  return {};
}

void ServedAdapter::set_link(bool up) {
  port_.set_link(up);
  adapter_->set_link(up);
}

bool ServedAdapter::inject(std::shared_ptr<AdapterFault> fault) {
  if (fault_ != nullptr) return false;
  fault_ = std::move(fault);
  try {
    fault_->install(port_, adapter_->engine(), loop_);
  } catch (const std::bad_alloc&) {
    stop_injecting();
    throw;
  }
  return true;
}

void ServedAdapter::stop_injecting() {
  if (fault_ == nullptr) return;
  fault_->remove(port_, adapter_->engine(), loop_);
  fault_.reset();
}

// What was too much for a burst comes in the turns after it, once in each, and not before the others' news.
bool ServedAdapter::run(Instant now) {
  bool more = adapter_->run(now);
  if (server_->has_more()) {
    server_->continue_session();
    follow_connection();
    more = true;
  }
  return more;
}

void ServedAdapter::on_time(Instant now) {
  if (now >= held_until_) {
    held_until_ = Instant::never();
    server_->hold(false);
    watch_connection();
  }
  if (now >= adapter_->next_deadline()) adapter_->on_time(now);
  if (now >= server_->next_deadline()) {
    server_->on_time(now);
    watch_connection();
  }
  if (now >= server_->accept_again_at()) {
    server_->accept_again();
    watch_listener();
  }
}

void ServedAdapter::on_fd_ready(int fd, shard::Readiness ready) {
  if (fd == server_->listen_fd()) {
    server_->on_listen_ready();
  } else if (!server_->has_more()) {
    server_->on_session_ready(ready.readable, ready.writable);
  }
  follow_connection();
}

void ServedAdapter::follow_connection() {
  hold_if_over_rate();
  watch_listener();
  watch_connection();
  if (has_client() == had_client_) return;
  had_client_ = has_client();
  if (observer_ == nullptr) return;
  try {
    observer_->on_client(*this, had_client_);
  } catch (const std::bad_alloc&) {  // of one that comes; nobody was told
    server_->drop_client("no memory");
    watch_connection();
    had_client_ = false;
  }
}

void ServedAdapter::watch_listener() {
  const bool wanted = server_->accept_again_at() == Instant::never();
  if (wanted == listener_watched_) return;
  if (!wanted) loop_.unwatch(server_->listen_fd());
  listener_watched_ = wanted && loop_.watch(server_->listen_fd(), shard::Interest::kRead, *this).has_value();
  if (wanted && !listener_watched_) server_->pause_accepting("the kernel refuses to watch its socket");
}

void ServedAdapter::unwatch_connection() {
  if (watched_fd_ >= 0) loop_.unwatch(std::exchange(watched_fd_, -1));
}

void ServedAdapter::hold_if_over_rate() {
  const Instant until = adapter_->held_until();
  if (until == Instant{} || until <= clock_.now()) [[likely]]
    return;
  held_until_ = until;
  server_->hold(true);
}

shard::Interest ServedAdapter::interest() const {
  if (held_until_ != Instant::never()) return shard::Interest::kNone;
  if (!server_->wants_write()) return shard::Interest::kRead;
  return server_->wants_read() ? shard::Interest::kBoth : shard::Interest::kWrite;
}

// Clients come and go, and a reply that the socket did not take turns the loop's interest around.
void ServedAdapter::watch_connection() {
  const int fd = server_->session_fd();
  if (fd != watched_fd_) {
    unwatch_connection();
    if (fd < 0) return;
    watched_for_ = interest();
    if (auto watched = loop_.watch(fd, watched_for_, *this); !watched) {
      server_->drop_client(
          watched.error().message);  // nobody would hear it, and it keeps the place of others
      return;
    }
    watched_fd_ = fd;
  }
  if (fd < 0) return;
  const shard::Interest wanted = interest();
  if (wanted == watched_for_) return;
  watched_for_ = wanted;
  loop_.change(fd, wanted);
}

}  // namespace pvrdma::adapters
