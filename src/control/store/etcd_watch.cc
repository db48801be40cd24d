#include "control/store/etcd_watch.h"

#include <algorithm>
#include <utility>

#include "base/control_thread.h"

namespace pvrdma::control::etcd {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kFirstPause{100};
constexpr milliseconds kLongestPause{2000};

}  // namespace

void EtcdWatch::start() {
  thread_ = std::thread([this] { run(); });
}

void EtcdWatch::stop() {
  {
    const std::scoped_lock lock(mutex_);
    stopping_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

bool EtcdWatch::stopping() {
  const std::scoped_lock lock(mutex_);
  return stopping_;
}

void EtcdWatch::run() {
  begin_control_thread("store-watch");
  milliseconds pause = kFirstPause;
  while (!stopping()) {
    const std::string trouble = follow();
    if (stopping()) return;
    if (doubted_) continue;
    if (connected_) pause = kFirstPause;
    tell(false, trouble);
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, pause, [&] { return stopping_; });
    pause = std::min(kLongestPause, pause * 2);
  }
}

std::string EtcdWatch::follow() {
  if (const auto ready = catch_up(); !ready) return ready.error().sentence;
  const auto on_line = [&](WatchLine line) {
    if (line.created && !connected_) {
      lease_.wait_granted(EtcdClient::kCallTimeout);
      tell(true, "");
    }
    take(std::move(line));
    return true;
  };
  const CallFailure ended = client_.watch(revision_ + 1, on_line, [&] { return !stopping() && !doubted_; });
  if (ended.code == Code::kOutOfRange) revision_ = 0;
  return ended.sentence;
}

Outcome<void> EtcdWatch::catch_up() {
  if (doubted_.exchange(false)) revision_ = 0;
  if (revision_ != 0) {
    const auto header = client_.check_revision(revision_);
    if (!header && header.error().code != Code::kOutOfRange) return tl::unexpected(header.error());
    if (header && header->cluster_id == cluster_id_) return {};
    revision_ = 0;
  }
  auto all = client_.read_all();
  if (!all) return tl::unexpected(all.error());
  revision_ = all->header.revision;
  cluster_id_ = all->header.cluster_id;
  queue_.post(
      [records = std::move(all->records)](StoreObserver& to) mutable { to.on_all(std::move(records)); });
  queue_.deliver();
  return {};
}

void EtcdWatch::take(WatchLine line) {
  auto event = line.events.begin();
  while (event != line.events.end()) {
    const std::int64_t revision = event->revision;
    std::vector<Change> changes;
    for (; event != line.events.end() && event->revision == revision; ++event) {
      changes.push_back(std::move(event->change));
    }
    if (revision <= revision_) continue;
    revision_ = revision;
    queue_.post([told = std::move(changes)](StoreObserver& to) mutable { to.on_changes(std::move(told)); });
  }
  queue_.deliver();
}

void EtcdWatch::tell(bool connected, const std::string& why) {
  if (connected == connected_ && (connected || why == trouble_)) return;
  connected_ = connected;
  trouble_ = why;
  queue_.post([connected, why](StoreObserver& to) { to.on_connection(connected, why); });
  queue_.deliver();
}

}  // namespace pvrdma::control::etcd
