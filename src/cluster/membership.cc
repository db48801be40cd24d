#include "cluster/membership.h"

#include <fmt/core.h>
#include <pthread.h>
#include <random>
#include <utility>
#include <variant>

#include "base/log.h"
#include "control/model/edits.h"
#include "control/model/records.h"
#include "control/store/store.h"

namespace pvrdma::cluster {
namespace {

constexpr Duration kTick = std::chrono::milliseconds(500);
constexpr int kTicksPerDiscovery = 4;
constexpr std::chrono::seconds kStorePatience(5);

std::string random_instance() {
  std::random_device random;
  return fmt::format("{:08x}{:08x}", random(), random());
}

std::unique_ptr<control::Store> make_store(const control::ClusterConfig& config) {
  if (const auto* etcd = std::get_if<control::EtcdConfig>(&config.store)) {
    return control::make_etcd_store(*etcd);
  }
  return control::make_sqlite_store(std::get<control::SqliteConfig>(config.store));
}

control::GidKey key_of(transport::SegmentId segment, const verbs::Gid& gid) {
  return {{segment.dvs, segment.vlan}, to_hex(gid)};
}

}  // namespace

Membership::Membership(const control::ClusterConfig& config, std::string version, shard::Loop& loop,
                       const Clock& clock, Apply apply)
    : config_(config),
      version_(std::move(version)),
      instance_(random_instance()),
      loop_(loop),
      clock_(clock),
      apply_(std::move(apply)),
      linger_(config.host_name) {}

Membership::~Membership() {
  stop();
}

Result<void> Membership::connect(const control::Plane::StopAsked& stop_asked) {
  auto plane = control::Plane::start(
      config_.host_name, instance_, make_store(config_),
      [this](InventoryPtr inventory) { recompute(std::move(inventory)); }, kStorePatience, stop_asked);
  if (!plane) return Failure(std::move(plane).error());
  const std::lock_guard lock(plane_mutex_);
  plane_ = *std::move(plane);
  return {};
}

void Membership::join() {
  publish_host();
  join_inventory();
  thread_ = std::thread([this] { keep_up(); });
  ::pthread_setname_np(thread_.native_handle(), "cluster");
}

void Membership::stop() {
  {
    const std::lock_guard lock(stop_mutex_);
    stopping_ = true;
  }
  stop_changed_.notify_all();
  if (thread_.joinable()) thread_.join();
  std::unique_ptr<control::Plane> plane;
  {
    const std::lock_guard lock(plane_mutex_);
    plane = std::move(plane_);
  }
  plane.reset();  // without the lock: this may take a while, and the shard must not wait
}

// --- Views ---

void Membership::recompute(InventoryPtr newest) {
  const std::lock_guard lock(view_mutex_);
  if (newest != nullptr) newest_ = std::move(newest);
  if (newest_ == nullptr) return;
  const Instant now = clock_.now();
  linger_.set_connected(store_connected(), now);
  const auto is_up = [this](const std::string& host) {
    const std::lock_guard up_lock(up_mutex_);
    return up_.contains(ids_.of(host));
  };
  HostView view =
      compute_view(linger_.apply(*newest_, now, is_up), config_.host_name, config_.socket_folder, ids_);
  if (last_ && *last_ == view) return;
  report_paths(last_ ? last_->fabric : fabric::View{}, view.fabric);
  last_ = view;
  send(std::move(view));
}

// While the plane starts there is an inventory only if the store was reached.
bool Membership::store_connected() const {
  const std::lock_guard lock(plane_mutex_);
  return plane_ == nullptr || plane_->connected();  // the shard waits for this mutex, too
}

void Membership::report_paths(const fabric::View& before, const fabric::View& now) const {
  for (const fabric::RemoteHost& host : now.hosts) {
    bool same = false;
    for (const fabric::RemoteHost& old : before.hosts)
      same = same || (old.id == host.id && old.path == host.path);
    if (!same) log::info("path to host {}: {}: {}", host.name, fabric::name_of(host.path), host.reason);
  }
}

void Membership::send(HostView view) {
  {
    const std::lock_guard lock(pending_mutex_);
    pending_ = std::move(view);
  }
  post_pending();
}

// A mailbox that is full is tried again by keep_up().
void Membership::post_pending() {
  const std::lock_guard lock(pending_mutex_);
  if (!pending_ || posted_) return;
  posted_ = loop_.post([this] { apply_pending(); });
}

void Membership::apply_pending() {
  std::optional<HostView> view;
  {
    const std::lock_guard lock(pending_mutex_);
    view = std::exchange(pending_, std::nullopt);
    posted_ = false;
  }
  if (view) apply_(*view);
}

// --- Live records ---

void Membership::on_gid_bound(transport::SegmentId segment, const verbs::Gid& gid, const std::string& port) {
  if (segment == transport::SegmentId{}) return;  // no cluster's business
  set_live(control::gid_key(key_of(segment, gid)), control::gid_value({port, config_.host_name}));
}

void Membership::on_gid_unbound(transport::SegmentId segment, const verbs::Gid& gid) {
  if (segment == transport::SegmentId{}) return;
  clear_live(control::gid_key(key_of(segment, gid)));
}

void Membership::on_host_up(transport::HostId host, bool up) {
  const std::lock_guard lock(up_mutex_);
  if (up) {
    up_.insert(host);
  } else {
    up_.erase(host);
  }
}

void Membership::on_power(const std::string& vm, bool on) {
  if (on) {
    set_live(control::power_key(vm), config_.host_name);
  } else {
    clear_live(control::power_key(vm));
  }
}

void Membership::set_live(std::string key, std::string value) {
  const std::lock_guard lock(plane_mutex_);
  if (plane_ != nullptr) plane_->set_live(std::move(key), std::move(value));
}

void Membership::clear_live(std::string key) {
  const std::lock_guard lock(plane_mutex_);
  if (plane_ != nullptr) plane_->clear_live(std::move(key));
}

// --- The own thread ---

void Membership::keep_up() {
  std::unique_lock lock(stop_mutex_);
  for (int tick = 1; !stop_changed_.wait_for(lock, kTick, [this] { return stopping_; }); ++tick) {
    lock.unlock();
    post_pending();
    bool keeps = false;
    {
      const std::lock_guard view_lock(view_mutex_);
      linger_.set_connected(store_connected(), clock_.now());
      keeps = linger_.keeps();
    }
    if (keeps) recompute(nullptr);
    join_inventory();
    if (tick % kTicksPerDiscovery == 0) publish_host();
    lock.lock();
  }
}

void Membership::publish_host() {
  auto discovered = control::discover({.vmnics = config_.vmnics});
  if (discovered_ == discovered) return;
  discovered_ = std::move(discovered);
  control::LiveHost live;
  live.name = config_.host_name;
  live.instance = instance_;
  live.version = version_;
  live.socket_folder = config_.socket_folder;
  live.vmnics = discovered_->vmnics;
  live.rdma_devices = discovered_->rdma_devices;
  set_live(control::live_host_key(config_.host_name), control::live_host_value(live));
}

// Once in this daemon's life: a host that an admin removes stays removed.
void Membership::join_inventory() {
  if (joined_) return;
  const auto done = plane_->edit([this](control::Inventory& inventory) -> Result<void> {
    if (inventory.hosts.contains(config_.host_name)) return {};
    return control::edits::add_host(inventory, config_.host_name);
  });
  joined_ = done.has_value();
  if (!done && !std::exchange(join_failure_logged_, true)) {
    log::warn("host {} is not in the cluster's inventory yet: {}", config_.host_name, done.error().message);
  }
}

}  // namespace pvrdma::cluster
