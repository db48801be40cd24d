// The store of several hosts: etcd. It combines the client, the lease and the watch.
//
// The observer is called from the threads of the watch and the lease, never from inside commit().
#include <atomic>
#include <cerrno>
#include <fmt/core.h>
#include <fmt/ranges.h>

#include "control/store/etcd_client.h"
#include "control/store/etcd_lease.h"
#include "control/store/etcd_watch.h"
#include "control/store/observer_queue.h"
#include "control/store/store.h"

namespace pvrdma::control {
namespace {

constexpr std::chrono::milliseconds kRevokeTimeout{2000};

class EtcdStore final : public Store {
 public:
  explicit EtcdStore(EtcdConfig config)
      : config_(std::move(config)), description_(fmt::format("etcd:{}", fmt::join(config_.endpoints, ","))) {}
  ~EtcdStore() override { stop(LeasedRecords::kGiveBack); }

  std::string description() const override { return description_; }
  std::chrono::seconds lease() const override { return std::chrono::seconds(config_.lease_seconds); }
  Result<void> start(StoreObserver& observer) override;
  void stop(LeasedRecords records) override;
  Result<Commit> commit(const Transaction& transaction) override;
  Result<std::vector<KeyValue>> read_all() override;
  Result<std::optional<StoreHealth>> health() override;
  bool forgets_by_itself() const override { return !config_.compact; }
  Result<void> forget_before(std::uint64_t revision) override;

 private:
  Failure not_running() const;

  const EtcdConfig config_;
  const std::string description_;
  ObserverQueue queue_;
  // start() makes them. They are kept until the end, because another thread may still be inside commit()
  // after stop().
  std::unique_ptr<etcd::EtcdClient> client_;
  std::unique_ptr<etcd::EtcdLease> lease_;
  std::unique_ptr<etcd::EtcdWatch> watch_;
  std::atomic<bool> running_ = false;
};

Result<void> EtcdStore::start(StoreObserver& observer) {
  auto client = etcd::EtcdClient::create(config_);
  if (!client) return Failure(client.error());
  client_ = std::move(*client);
  lease_ = std::make_unique<etcd::EtcdLease>(*client_, [this] {
    watch_->doubt();  // a replacement etcd does not know the lease, but may otherwise look like the old one
    queue_.post([](StoreObserver& to) { to.on_lease_lost(); });
    queue_.deliver();
  });
  watch_ = std::make_unique<etcd::EtcdWatch>(*client_, *lease_, queue_);
  queue_.open(observer);
  running_ = true;
  lease_->start();
  watch_->start();
  return {};
}

void EtcdStore::stop(LeasedRecords records) {
  if (!running_.exchange(false)) return;
  queue_.close();
  client_->interrupt();
  const std::int64_t lease = lease_->stop();
  watch_->stop();
  // If etcd cannot be reached, the lease ends by itself.
  if (lease != 0 && records == LeasedRecords::kGiveBack) (void)client_->revoke(lease, kRevokeTimeout);
}

Result<Commit> EtcdStore::commit(const Transaction& transaction) {
  if (!running_) return not_running();
  std::int64_t lease = 0;
  for (const Change& change : transaction.changes) {
    if (!change.leased || !change.value) continue;
    lease = lease_->current();
    if (lease != 0) break;
    return fail(ErrorKind::kUnavailable,
                fmt::format("store {}: it has not granted this host a lease yet: wait until it is reachable; "
                            "nothing was changed",
                            description_));
  }
  const auto request = etcd::txn_request(config_.prefix, transaction, lease);
  if (!request) return Failure(request.error());
  const auto held = client_->commit(*request);
  if (held) return *held ? Commit::kCommitted : Commit::kConflict;
  const etcd::CallFailure& failure = held.error();
  if (failure.maybe_done) {
    return fail(ErrorKind::kUnavailable,
                fmt::format("{}; the change may or may not have been made", failure.sentence));
  }
  if (failure.code == etcd::Code::kNotFound && lease != 0) lease_->lost(lease);
  const std::string sentence = fmt::format("{}; nothing was changed", failure.sentence);
  if (failure.code == etcd::Code::kPermissionDenied) return fail(EACCES, sentence);
  return fail(ErrorKind::kUnavailable, sentence);
}

Result<std::vector<KeyValue>> EtcdStore::read_all() {
  if (!running_) return not_running();
  auto all = client_->read_all();
  if (!all) return fail(ErrorKind::kUnavailable, all.error().sentence);
  return std::move(all->records);
}

Result<std::optional<StoreHealth>> EtcdStore::health() {
  if (!running_) return not_running();
  auto status = client_->status();
  if (!status) return fail(ErrorKind::kUnavailable, status.error().sentence);
  return StoreHealth{.revision = static_cast<std::uint64_t>(status->header.revision),
                     .size_bytes = status->size_bytes,
                     .used_bytes = status->used_bytes,
                     .alarms = status->errors};
}

Result<void> EtcdStore::forget_before(std::uint64_t revision) {
  if (!running_) return not_running();
  const auto done = client_->compact(static_cast<std::int64_t>(revision));
  if (done || done.error().code == etcd::Code::kOutOfRange) return {};
  return fail(ErrorKind::kUnavailable, done.error().sentence);
}

Failure EtcdStore::not_running() const {
  return fail(ENOTCONN, fmt::format("store {}: it is not running; nothing was changed", description_));
}

}  // namespace

std::unique_ptr<Store> make_etcd_store(const EtcdConfig& config) {
  return std::make_unique<EtcdStore>(config);
}

}  // namespace pvrdma::control
