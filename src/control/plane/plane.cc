#include "control/plane/plane.h"

#include <algorithm>
#include <cerrno>
#include <condition_variable>
#include <exception>
#include <fmt/core.h>
#include <mutex>
#include <random>
#include <utility>

#include "base/events.h"
#include "base/log.h"
#include "base/time.h"
#include "control/model/records.h"
#include "control/plane/caretaker.h"
#include "control/plane/live_records.h"
#include "control/plane/mirror.h"

namespace pvrdma::control {
namespace {

constexpr events::Subject kStore{events::Type::kStore};

using std::chrono::milliseconds;
using SteadyTime = std::chrono::steady_clock::time_point;

constexpr int kAttempts = 8;
constexpr milliseconds kTurnPatience = std::chrono::seconds(10);
constexpr milliseconds kConflictPatience = std::chrono::seconds(1);
constexpr milliseconds kNoticePatience = std::chrono::seconds(5);
constexpr milliseconds kStopPollPeriod{100};

// The state from which an edit starts.
struct Base {
  std::shared_ptr<const Inventory> inventory;
  std::optional<std::string> guard;
  std::set<std::string> unreadable;
};

// What an edit does to a base.
struct Plan {
  Transaction transaction;
  Inventory next;  // with the next revision
};

enum class Tried : std::uint8_t { kNothingToDo, kCommitted, kConflict };

// The id for a cluster that has no id yet; not 0.
std::uint64_t random_id() {
  std::random_device random;
  return (std::uint64_t{random()} << 32 | random()) | 1;
}

Base base_of(Mirror& mirror) {
  return {mirror.inventory(), mirror.guard(), mirror.unreadable()};
}

}  // namespace

struct Plane::Impl final : StoreObserver {
  Impl(std::string host, std::string instance, std::unique_ptr<Store> store, PlaneObserver* observer)
      : host_(std::move(host)),
        instance_(std::move(instance)),
        store_(std::move(store)),
        observer_(observer),
        live_(*store_, host_) {}

  ~Impl() override {
    {
      const std::lock_guard lock(mutex_);
      stopping_ = true;
    }
    changed_.notify_all();
    live_.stop();
    store_->stop(records_);
  }

  // --- StoreObserver ---

  void on_all(std::vector<KeyValue> records) override {
    {
      const std::lock_guard lock(mutex_);
      if (std::exchange(filled_, true)) ++resyncs_;
      report(mirror_.replace(records));
    }
    changed_.notify_all();
    live_.on_all(records);
    if (observer_ != nullptr) observer_->on_inventory();
  }

  void on_changes(std::vector<Change> changes) override {
    {
      const std::lock_guard lock(mutex_);
      report(mirror_.change(changes));
    }
    changed_.notify_all();
    live_.on_changes(changes);
    if (observer_ != nullptr) observer_->on_inventory();
  }

  void on_connection(bool connected, std::string why) override {
    {
      const std::lock_guard lock(mutex_);
      if (connected != connected_) {
        if (connected) {
          events::tell(log::Level::kInfo, kStore, "store {}: reached", store_->description());
        } else {
          events::tell(log::Level::kWarn, kStore, "store {}: away: {}", store_->description(), why);
        }
      }
      connected_ = connected;
      trouble_ = connected ? "" : std::move(why);
    }
    changed_.notify_all();
    live_.on_connection(connected);
    if (observer_ != nullptr) observer_->on_store(connected);
  }

  void on_lease_lost() override {
    events::tell(log::Level::kWarn, kStore,
                 "store {}: this host's lease is lost: its live records are written again",
                 store_->description());
    live_.on_lease_lost();
  }

  // --- Start ---

  Result<void> start(milliseconds patience, const StopAsked& stop_asked) {
    if (auto started = store_->start(*this); !started) return started;
    live_.start();
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, patience, [this] { return filled_ && connected_; });
    return wait_for_name(lock, store_->lease() + patience, stop_asked);
  }

  // A killed daemon looks like a living one until its lease has ended.
  Result<void> wait_for_name(std::unique_lock<std::mutex>& lock, milliseconds longest,
                             const StopAsked& stop_asked) {
    if (!other_instance()) return {};
    log::info("host {}: the store still has a daemon with this name: waiting up to {} s until its lease ends",
              host_, std::chrono::ceil<std::chrono::seconds>(longest).count());
    const SteadyTime deadline = std::chrono::steady_clock::now() + longest;
    while (other_instance()) {
      if (stop_asked && stop_asked()) {
        return fail(ECANCELED, fmt::format("host {}: stopped while it waited for its name", host_));
      }
      const SteadyTime now = std::chrono::steady_clock::now();
      if (now >= deadline) {
        return fail(
            EADDRINUSE,
            fmt::format("another pvrdmad with the name {} is alive: give this one another [host] name, "
                        "or wait until the other one's lease ([store] lease_s) has ended",
                        host_));
      }
      changed_.wait_until(lock, std::min(deadline, now + kStopPollPeriod));
    }
    return {};
  }

  // --- Edits ---

  Result<void> edit(const Edit& edit, const Committed& committed) {
    std::unique_lock lock(mutex_);
    const bool mine = changed_.wait_for(lock, kTurnPatience, [this] { return !editing_ || stopping_; });
    if (!mine || stopping_) {
      return fail(ErrorKind::kUnavailable,
                  fmt::format("store {}: other edits take too long: try again", store_->description()));
    }
    const Turn turn(*this, lock);
    return edit_in_turn(edit, committed, lock);
  }

  Result<void> rehearse(const Edit& edit) {
    std::unique_lock lock(mutex_);
    if (!connected_ || !filled_) return away();
    const Base base = base_of(mirror_);
    lock.unlock();
    if (auto planned = plan(edit, base); !planned) return Failure(std::move(planned).error());
    return {};
  }

  // While it exists, this thread is the one that edits. An exception ends it, too.
  class Turn {
   public:
    Turn(Impl& plane, std::unique_lock<std::mutex>& lock) : plane_(plane), lock_(lock) {
      plane_.editing_ = true;
    }
    ~Turn() {
      if (!lock_.owns_lock()) lock_.lock();
      plane_.editing_ = false;
      lock_.unlock();
      plane_.changed_.notify_all();
    }
    Turn(const Turn&) = delete;
    Turn& operator=(const Turn&) = delete;

   private:
    Impl& plane_;
    std::unique_lock<std::mutex>& lock_;
  };

  Result<void> edit_in_turn(const Edit& edit, const Committed& committed,
                            std::unique_lock<std::mutex>& lock) {
    if (!connected_ || !filled_) return away();
    Base base = base_of(mirror_);
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      lock.unlock();
      auto tried = try_edit(edit, base, committed);
      lock.lock();
      if (!tried) return Failure(std::move(tried).error());
      if (*tried == Tried::kNothingToDo) return {};
      if (*tried == Tried::kCommitted) {
        ++edits_;
        return wait_for_notice(base.inventory->revision + 1, lock);
      }
      ++conflicts_;
      if (auto newer = newer_base(base, lock); !newer) {
        return Failure(std::move(newer).error());
      } else {
        base = *std::move(newer);
      }
    }
    return fail(ErrorKind::kUnavailable,
                fmt::format("store {}: other hosts changed it {} times in between: nothing was "
                            "changed: try again",
                            store_->description(), kAttempts));
  }

  // Runs the edit on the base. nullopt: it changes nothing.
  Result<std::optional<Plan>> plan(const Edit& edit, const Base& base) {
    Inventory next = *base.inventory;
    const std::uint64_t cluster_id = next.cluster_id == 0 ? random_id() : next.cluster_id;
    next.cluster_id = cluster_id;
    if (auto edited = edit(next); !edited) return Failure(std::move(edited).error());
    next.cluster_id = base.inventory->cluster_id;
    if (next == *base.inventory) return std::nullopt;
    next.cluster_id = cluster_id;
    next.revision = base.inventory->revision + 1;
    Transaction transaction;
    transaction.changes = difference(*base.inventory, next);
    transaction.expects.push_back({std::string(kGuardKey), base.guard});
    for (const Change& change : transaction.changes) {
      if (base.unreadable.contains(change.key)) {
        return fail(ErrorKind::kConflict,
                    fmt::format("store {}: this version does not understand its record {}: run the "
                                "pvrdmad that wrote it, or remove the record",
                                store_->description(), change.key));
      }
    }
    return Plan{std::move(transaction), std::move(next)};
  }

  Result<Tried> try_edit(const Edit& edit, const Base& base, const Committed& committed) {
    auto planned = plan(edit, base);
    if (!planned) return Failure(std::move(planned).error());
    if (!*planned) return Tried::kNothingToDo;
    auto done = store_->commit((*planned)->transaction);
    if (!done) return Failure(std::move(done).error());
    if (*done != Commit::kCommitted) return Tried::kConflict;
    if (committed) announce(committed, *base.inventory, (*planned)->next);
    return Tried::kCommitted;
  }

  // The store has the change, whatever becomes of the announcement.
  static void announce(const Committed& committed, const Inventory& before, const Inventory& after) {
    try {
      committed(before, after);
    } catch (const std::exception& error) {
      log::error("the store has an edit, but what it changed cannot be told: {}", error.what());
    }
  }

  Result<void> wait_for_notice(std::uint64_t revision, std::unique_lock<std::mutex>& lock) {
    const bool arrived =
        changed_.wait_for(lock, kNoticePatience, [&] { return mirror_.revision() >= revision || stopping_; });
    if (arrived) return {};
    return fail(ErrorKind::kUnavailable,
                fmt::format("store {}: the change was made, but not confirmed within {} s: look again "
                            "before you repeat it",
                            store_->description(),
                            std::chrono::duration_cast<std::chrono::seconds>(kNoticePatience).count()));
  }

  // Takes the newer inventory from the watch or, if the watch is late, from the store itself.
  Result<Base> newer_base(const Base& base, std::unique_lock<std::mutex>& lock) {
    changed_.wait_for(lock, kConflictPatience,
                      [&] { return mirror_.guard() != base.guard || !connected_ || stopping_; });
    if (!connected_ || stopping_) return away();
    if (mirror_.guard() != base.guard) return base_of(mirror_);
    lock.unlock();
    auto records = store_->read_all();
    lock.lock();
    if (!records) return Failure(std::move(records).error());
    Mirror read;
    read.replace(*records);
    return base_of(read);
  }

  Failure away() const {
    const std::string why = trouble_.empty() ? "it has not answered yet" : trouble_;
    return fail(ErrorKind::kUnavailable,
                fmt::format("store {} is away ({}): nothing was changed: try again when it is back",
                            store_->description(), why));
  }

  // --- The store's history ---

  void look_after_store(Instant now) {
    std::string caretaker;
    {
      const std::lock_guard lock(mutex_);
      if (!connected_ || !caretaker_.is_due(now)) return;
      caretaker = caretaker_of(*mirror_.inventory());
    }
    const auto health = store_->health();
    std::optional<std::uint64_t> forget;
    {
      const std::lock_guard lock(mutex_);
      if (!health || !*health) return caretaker_.put_off(now);
      forget = caretaker_.look((*health)->revision, now);
      if ((*health)->alarms != health_.alarms && !(*health)->alarms.empty()) {
        events::tell(
            log::Level::kError, kStore,
            "store {}: it refuses changes ({}): make room and clear its alarms: etcdctl defrag, etcdctl "
            "alarm disarm",
            store_->description(), (*health)->alarms);
      }
      health_ = **health;
      caretaker_name_ = store_->forgets_by_itself() ? std::string() : caretaker;
    }
    if (!forget || caretaker != host_ || store_->forgets_by_itself()) return;
    if (auto done = store_->forget_before(*forget); !done)
      log::warn("store {}: cannot remove old revisions: {}", store_->description(), done.error().message);
  }

  // --- Helpers ---

  bool other_instance() {
    const auto inventory = mirror_.inventory();
    const auto it = inventory->live_hosts.find(host_);
    return it != inventory->live_hosts.end() && it->second.instance != instance_;
  }

  void report(const std::vector<std::string>& troubles) {
    bad_records_ += troubles.size();
    for (const std::string& trouble : troubles) {
      if (!log_limit_.allow(Instant::now())) return;
      log::warn("store {}: {}", store_->description(), trouble);
    }
  }

  StoreState state() const {
    StoreState state;
    state.live_conflicts = live_.conflicts();
    state.description = store_->description();
    const std::lock_guard lock(mutex_);
    state.connected = connected_;
    state.trouble = connected_ || !trouble_.empty() ? trouble_ : "it has not answered yet";
    state.edits = edits_;
    state.conflicts = conflicts_;
    state.bad_records = bad_records_;
    state.resyncs = resyncs_;
    state.size_bytes = health_.size_bytes;
    state.used_bytes = health_.used_bytes;
    state.alarms = health_.alarms;
    state.caretaker = caretaker_name_;
    return state;
  }

  const std::string host_;
  const std::string instance_;
  LeasedRecords records_ = LeasedRecords::kGiveBack;  // what happens to them when the plane is destroyed
  const std::unique_ptr<Store> store_;
  PlaneObserver* const observer_;
  LiveRecords live_;

  mutable std::mutex mutex_;
  std::condition_variable changed_;  // notified when a member below has changed
  Mirror mirror_;
  bool connected_ = false;
  bool filled_ = false;   // on_all() has been called
  bool editing_ = false;  // one edit at a time, so that this host's edits do not conflict
  bool stopping_ = false;
  std::string trouble_;
  std::uint64_t edits_ = 0;
  std::uint64_t conflicts_ = 0;
  std::uint64_t bad_records_ = 0;
  std::uint64_t resyncs_ = 0;
  Caretaker caretaker_;
  StoreHealth health_;
  std::string caretaker_name_;
  log::LogLimiter log_limit_{20, std::chrono::seconds(10)};
};

Result<std::unique_ptr<Plane>> Plane::start(std::string host, std::string instance,
                                            std::unique_ptr<Store> store, PlaneObserver* observer,
                                            milliseconds patience, const StopAsked& stop_asked) {
  auto impl = std::make_unique<Impl>(std::move(host), std::move(instance), std::move(store), observer);
  if (auto started = impl->start(patience, stop_asked); !started) return Failure(std::move(started).error());
  return std::unique_ptr<Plane>(new Plane(std::move(impl)));
}

Plane::Plane(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
Plane::~Plane() = default;

const std::string& Plane::host() const {
  return impl_->host_;
}

std::shared_ptr<const Inventory> Plane::inventory() const {
  const std::lock_guard lock(impl_->mutex_);
  return impl_->mirror_.inventory();
}

StoreState Plane::store_state() const {
  return impl_->state();
}

Result<void> Plane::edit(const Edit& edit, const Committed& committed) {
  return impl_->edit(edit, committed);
}

Result<void> Plane::rehearse(const Edit& edit) {
  return impl_->rehearse(edit);
}

void Plane::set_live(std::string key, std::string value, std::string account, std::string replaces,
                     Pace pace) {
  impl_->live_.set(std::move(key), std::move(value), std::move(account), std::move(replaces), pace);
}

void Plane::leave_records() {
  impl_->records_ = LeasedRecords::kLeave;
}

void Plane::look_after_store(Instant now) {
  impl_->look_after_store(now);
}

void Plane::clear_live(std::string key, std::chrono::milliseconds after) {
  impl_->live_.clear(key, after);
}

}  // namespace pvrdma::control
