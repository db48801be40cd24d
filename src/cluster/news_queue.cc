#include "cluster/news_queue.h"

#include <utility>

#include "base/control_thread.h"

namespace pvrdma::cluster {

template <typename Change>
void NewsQueue::tell(Change change) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    change();
  }
  arrived_.notify_one();
}

void NewsQueue::inventory_changed() {
  tell([this] { inventory_ = true; });
}

void NewsQueue::store_connected(bool connected) {
  tell([this, connected] {
    store_changed_ = store_changed_ || connected != connected_;
    was_lost_ = was_lost_ || (connected_ && !connected);
    connected_ = connected;
  });
}

void NewsQueue::host_up(const ShardLink& link, bool up) {
  tell([&] {
    if (up) {
      hosts_.set(link, {});
    } else {
      hosts_.clear(link);
    }
  });
}

void NewsQueue::gid_bound(const GidBinding& binding, const GidPort& port) {
  tell([&] { gids_.set(binding, port); });
}

void NewsQueue::gid_unbound(const GidBinding& binding) {
  tell([&] { gids_.clear(binding); });
}

void NewsQueue::gid_moved(const GidBinding& binding, transport::ShardNumber shard) noexcept {
  tell([&] {
    gids_.update(binding, [shard](GidPort& port) {
      port.shard = shard;
      port.has_moved = true;
    });
  });
}

void NewsQueue::powered(const std::string& vm, bool on) {
  tell([&] {
    if (on) {
      vms_.set(vm, {});
    } else {
      vms_.clear(vm);
    }
  });
}

bool NewsQueue::has_news() const {
  return inventory_ || store_changed_ || !hosts_.empty() || !gids_.empty() || !vms_.empty();
}

std::optional<News> NewsQueue::wait(Duration longest) {
  std::unique_lock lock(mutex_);
  arrived_.wait_for(lock, longest, [this] { return closed_ || has_news(); });
  if (closed_) return std::nullopt;
  News news;
  const bool keyed = !hosts_.empty() || !gids_.empty() || !vms_.empty();
  news.inventory = std::exchange(inventory_, false);
  news.store_connected = connected_;
  news.store_was_lost = std::exchange(was_lost_, false);
  store_changed_ = false;
  {
    const Impatience impatience;  // the shard takes this lock, too
    news.hosts = hosts_.take(kBatch);
    news.gids = gids_.take(kBatch);
    news.vms = vms_.take(kBatch);
  }
  lock.unlock();
  if (keyed && news.hosts.empty() && news.gids.empty() && news.vms.empty()) pause_for_memory();
  return news;
}

void NewsQueue::close() {
  tell([this] { closed_ = true; });
}

}  // namespace pvrdma::cluster
