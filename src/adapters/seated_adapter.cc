#include "adapters/seated_adapter.h"

#include <utility>

namespace pvrdma::adapters {

SeatedAdapter::SeatedAdapter(std::unique_ptr<device::Adapter> adapter, std::unique_ptr<ClientRecord> record,
                             shard::Loop& loop, const Clock& clock, Blame::Party& party)
    : adapter_(std::move(adapter)), record_(std::move(record)), loop_(loop), clock_(clock), party_(party) {
  adapter_->engine().belong_to(&party_);
}

SeatedAdapter::~SeatedAdapter() {
  unwatch();
}

// Messages beyond one burst are handled in later turns, one burst in each turn, after the events of other
// clients.
bool SeatedAdapter::run(Instant now) {
  const Blame::Piece piece(party_.blame(), &party_);
  bool more = adapter_->run(now);
  if (!is_suspended_ && seat_->has_more() && !survives()) {
    seat_->continue_session();
    follow();
    followed_();
    more = true;
  }
  return more;
}

void SeatedAdapter::on_time(Instant now) {
  const Blame::Piece piece(party_.blame(), &party_);
  if (!is_suspended_ && now >= held_until_) {
    held_until_ = Instant::never();
    seat_->hold(false);
    watch();
  }
  if (now >= adapter_->next_deadline()) adapter_->on_time(now);
  if (!is_suspended_ && now >= seat_->next_deadline()) {
    seat_->on_time(now);
    watch();
  }
}

void SeatedAdapter::on_fd_ready(int /*fd*/, shard::Readiness ready) {
  const Blame::Piece piece(party_.blame(), &party_);
  if (survives()) return;
  if (!seat_->has_more()) seat_->on_ready(ready.readable, ready.writable);
  follow();
  followed_();
}

// The client's last messages are not read: a VMM that exits unmaps the guest's memory.
bool SeatedAdapter::survives() {
  if (!adapter_->outlives_client() || !seat_->client_hung_up()) return false;
  adapter_->client_hung_up();
  unwatch();
  seat_->give_up_requests();
  return true;
}

void SeatedAdapter::outlive_client(bool outlives) {
  adapter_->outlive_client(outlives);
  seat_->keep_session(outlives);
  if (!outlives) watch();
}

void SeatedAdapter::follow() {
  hold_if_over_rate();
  watch();
}

void SeatedAdapter::unwatch() {
  if (watched_fd_ >= 0) loop_.unwatch(std::exchange(watched_fd_, -1));
}

void SeatedAdapter::suspend_client(bool suspended) {
  is_suspended_ = suspended;
  if (suspended) unwatch();
}

void SeatedAdapter::hold_if_over_rate() {
  const Instant until = adapter_->held_until();
  if (until == Instant{} || until <= clock_.now()) [[likely]]
    return;
  held_until_ = until;
  seat_->hold(true);
}

shard::Interest SeatedAdapter::interest() const {
  if (held_until_ != Instant::never()) return shard::Interest::kNone;
  if (!seat_->wants_write()) return shard::Interest::kRead;
  return seat_->wants_read() ? shard::Interest::kBoth : shard::Interest::kWrite;
}

// The client's socket changes when clients come and go. The interest changes when the socket does not accept
// a reply.
void SeatedAdapter::watch() {
  if (is_suspended_ || adapter_->client_is_gone()) return;
  const int fd = seat_->fd();
  if (fd != watched_fd_) {
    unwatch();
    if (fd < 0) return;
    watched_for_ = interest();
    if (auto watched = loop_.watch(fd, watched_for_, *this); !watched) {
      seat_->drop_client(watched.error().message);  // the client would never be heard, and would block others
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
