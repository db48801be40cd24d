#include "cluster/membership.h"

#include <algorithm>
#include <fmt/core.h>
#include <utility>

#include "base/control_thread.h"

namespace pvrdma::cluster {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(500);
constexpr int kTicksPerDiscovery = 4;
constexpr std::chrono::seconds kStorePatience(5);
constexpr Duration kViewPatience = std::chrono::seconds(2);

}  // namespace

Membership::Membership(const control::ClusterConfig& config, std::string version,
                       const std::vector<control::RoceConfig>& links, ShardCount shards,
                       const std::vector<shard::Loop*>& loops, const Clock& clock,
                       const ViewFeed::Apply& apply, std::string instance)
    : host_name_(config.host_name),
      clock_(clock),
      presence_(config, std::move(version), shards.total(), std::move(instance)),
      feed_(config.host_name, config.socket_folder, VmShards(config.host_name, shards, links), loops, apply) {
  for (std::uint16_t i = 0; i < shards.total(); ++i) {
    const transport::ShardNumber shard(i);
    shards_.emplace_back(news_, shard, shards.is_ward(shard));
  }
}

Membership::~Membership() {
  stop();
}

Result<void> Membership::connect(std::unique_ptr<control::Store> store,
                                 const control::Plane::StopAsked& stop_asked) {
  auto plane = control::Plane::start(host_name_, presence_.instance(), std::move(store), this, kStorePatience,
                                     stop_asked);
  if (!plane) return Failure(std::move(plane).error());
  plane_ = *std::move(plane);
  return {};
}

void Membership::join() {
  presence_.publish_host(*plane_);
  presence_.join_inventory(*plane_);
  thread_ = std::thread([this] { run(); });
}

void Membership::stop(control::LeasedRecords records) {
  news_.close();
  if (thread_.joinable()) thread_.join();
  if (plane_ != nullptr && records == control::LeasedRecords::kLeave) plane_->leave_records();
  plane_.reset();
}

// The segment of the daemon's own adapters does not concern the cluster.
void Membership::ShardNews::on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid,
                                         const std::string& port) {
  if (segment != transport::SegmentId{}) news_.gid_bound({segment, gid}, {port, shard_});
}

void Membership::ShardNews::on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) {
  if (segment != transport::SegmentId{}) news_.gid_unbound({segment, gid});
}

void Membership::ShardNews::on_gid_moved(transport::SegmentId segment, const verbs::Gid& gid) noexcept {
  if (segment != transport::SegmentId{}) news_.gid_moved({segment, gid}, shard_);
}

// The ward notices late that a host is gone. Its first shard is connected to whatever the ward is.
void Membership::ShardNews::on_host_up(transport::HostId host, bool up) {
  if (!is_ward_) news_.host_up({shard_, host}, up);
}

// A view that was sent before waits in the shard's mailbox in front of the move's first step. One that the
// mailbox refused is offered again after the move, and move() has replaced it by then.
Result<adapters::Placed> Membership::while_held(const std::string& adapter, std::uint32_t shard,
                                                const std::function<Result<adapters::Placed>()>& move) {
  std::unique_lock held(views_, std::defer_lock);
  // ThreadSanitizer does not know what std::timed_mutex waits by.
  for (const Instant until = Instant::now() + kViewPatience; !held.try_lock() && Instant::now() < until;)
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  if (!held)
    return fail(ErrorKind::kUnavailable, "a view of the cluster is being made: try again in a moment");
  if (!feed_.has(adapter)) return move();
  if (auto may = feed_.check(adapter, shard); !may) return Failure(std::move(may).error());
  if (const control::StoreState store = plane_->store_state(); !store.connected) {
    return fail(ErrorKind::kUnavailable,
                fmt::format("VM {} stays on its shard while the store cannot be reached, because other hosts "
                            "would not learn of another one: {}",
                            adapter, store.trouble));
  }
  auto placed = move();
  if (placed) feed_.move(adapter, shard, clock_.now());
  return placed;
}

// --- The thread ---

void Membership::run() {
  begin_control_thread("cluster");
  Instant next_tick = clock_.now() + kTick;
  int ticks = 0;
  const auto next = [&] { return inventory_changed_ ? std::min(next_tick, next_view_) : next_tick; };
  while (const auto news = news_.wait(next() - clock_.now())) {
    presence_.publish(news->gids, *plane_);
    presence_.publish(news->vms, *plane_);
    const bool is_tick = clock_.now() >= next_tick;
    send_views(*news, is_tick);
    if (!is_tick) continue;
    next_tick = clock_.now() + kTick;
    presence_.join_inventory(*plane_);
    plane_->look_after_store(clock_.now());
    if (++ticks % kTicksPerDiscovery == 0) presence_.publish_host(*plane_);
  }
}

void Membership::send_views(const News& news, bool is_tick) {
  const std::lock_guard held(views_);
  const Instant now = clock_.now();
  for (const auto& [vm, on] : news.vms) feed_.set_on(vm, on.has_value());
  for (const auto& [link, up] : news.hosts) feed_.set_up(link, up.has_value());
  if (news.store_was_lost) feed_.set_store_connected(false, now);
  feed_.set_store_connected(news.store_connected, now);
  inventory_changed_ = inventory_changed_ || news.inventory;
  if (inventory_changed_ && clock_.now() >= next_view_) renew_view();
  if (is_tick) feed_.look_again(clock_.now());
}

void Membership::renew_view() {
  inventory_changed_ = false;
  const Instant begin = clock_.now();
  feed_.set_inventory(plane_->inventory(), begin);
  const Instant end = clock_.now();
  next_view_ = end + std::max(kViewPause, kViewShare * (end - begin));
}

}  // namespace pvrdma::cluster
