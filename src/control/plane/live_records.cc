#include "control/plane/live_records.h"

#include <algorithm>
#include <utility>

#include "base/control_thread.h"
#include "base/time.h"
#include "control/model/records.h"

namespace pvrdma::control {
namespace {

// The most values of one record that may be in the store, after puts that ended in errors. The oldest one is
// dropped.
constexpr std::size_t kMayExistMax = 8;

}  // namespace

LiveRecords::LiveRecords(Store& store, std::string host) : store_(store), host_(std::move(host)) {}

LiveRecords::~LiveRecords() {
  stop();
}

void LiveRecords::start() {
  thread_ = std::thread([this] { run(); });
}

void LiveRecords::stop() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void LiveRecords::set(std::string key, std::string value, std::string account, std::string replaces,
                      Pace pace) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[key];
  auto& values = entry.may_exist;
  if (!replaces.empty() && std::find(values.begin(), values.end(), replaces) == values.end())
    values.push_back(std::move(replaces));
  entry.wanted = std::move(value);
  entry.account = std::move(account);
  entry.pace = pace;
  again(key, entry);
}

void LiveRecords::clear(const std::string& key, std::chrono::milliseconds after) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  if (it->second.may_exist.empty()) {
    pending_.erase(it->second.place);
    entries_.erase(it);
    return;
  }
  it->second.wanted.reset();
  it->second.pace = Pace::kLimited;
  again(key, it->second);
  it->second.retry_at = std::chrono::steady_clock::now() + after;
}

void LiveRecords::on_connection(bool connected) {
  const std::lock_guard lock(mutex_);
  connected_ = connected;
  wake_.notify_all();
}

void LiveRecords::on_all(const std::vector<KeyValue>& records) {
  std::map<std::string_view, std::string_view> stored;
  for (const KeyValue& record : records) stored.emplace(record.key, record.value);
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) {
    const auto found = stored.find(key);
    const bool as_wanted = entry.wanted && found != stored.end() && found->second == *entry.wanted;
    if (!as_wanted) again(key, entry);
  }
}

void LiveRecords::on_changes(const std::vector<Change>& changes) {
  const std::lock_guard lock(mutex_);
  for (const Change& change : changes) {
    const auto it = entries_.find(change.key);
    if (it == entries_.end() || !it->second.wanted || change.value == it->second.wanted) continue;
    if (it->second.foreign && change.value) continue;  // another host still holds it
    again(it->first, it->second);
    // The value is another host's. Perhaps its VM has moved there and this host learns that in a moment, so
    // the next attempt waits.
    if (change.value) it->second.retry_at = std::chrono::steady_clock::now() + kTakenPause;
  }
}

void LiveRecords::on_lease_lost() {
  const std::lock_guard lock(mutex_);
  for (auto& [key, entry] : entries_) again(key, entry);
}

std::uint64_t LiveRecords::conflicts() const {
  const std::lock_guard lock(mutex_);
  return conflicts_;
}

void LiveRecords::again(const std::string& key, Entry& entry) {
  entry.retry_at = {};
  entry.serial = next_serial_++;
  if (entry.place == 0) queue(key, entry);
  wake_.notify_all();
}

void LiveRecords::queue(const std::string& key, Entry& entry) {
  pending_.erase(entry.place);
  entry.place = next_place_++;
  pending_.emplace(entry.place, key);
}

void LiveRecords::run() {
  begin_control_thread("plane");
  std::unique_lock lock(mutex_);
  Time not_before{};
  while (!stopping_) {
    const Time now = std::chrono::steady_clock::now();
    const bool may = connected_ && now >= not_before;
    const std::vector<Task> tasks = may ? due(now) : std::vector<Task>{};
    if (!tasks.empty()) {
      lock.unlock();
      const auto done = carry_out(tasks);
      if (!done) {
        log::debug("live records: {}", done.error().message);
        not_before = std::chrono::steady_clock::now() + kTroublePause;
      }
      lock.lock();
    } else if (!connected_ || pending_.empty()) {
      wake_.wait(lock);
    } else {
      wake_.wait_until(lock, std::max(not_before, next_due(std::chrono::steady_clock::now())));
    }
  }
}

std::vector<LiveRecords::Task> LiveRecords::due(Time now) {
  std::vector<Task> tasks;
  for (const auto& [place, key] : pending_) {
    if (tasks.size() == kBatchRecords) break;
    Entry& entry = entries_.at(key);
    if (due_at(key, entry, now) > now) continue;
    if (!entry.foreign && entry.pace == Pace::kLimited) rates_.note(key, entry.account, now);
    tasks.push_back({key, entry.wanted, entry.may_exist, entry.serial});
    // From now on the value may be in the store, whatever the store answers.
    auto& values = entry.may_exist;
    if (!entry.wanted || std::find(values.begin(), values.end(), *entry.wanted) != values.end()) continue;
    if (values.size() == kMayExistMax) values.erase(values.begin());
    values.push_back(*entry.wanted);
  }
  return tasks;
}

// Attempts at a record that another host holds write nothing, so the rates do not count them.
LiveRecords::Time LiveRecords::due_at(const std::string& key, const Entry& entry, Time now) const {
  if (entry.foreign || entry.pace == Pace::kAtOnce) return entry.retry_at;
  return std::max(entry.retry_at, rates_.due(key, entry.account, now));
}

LiveRecords::Time LiveRecords::next_due(Time now) const {
  Time next = Time::max();
  for (const auto& [place, key] : pending_) next = std::min(next, due_at(key, entries_.at(key), now));
  return next;
}

Result<void> LiveRecords::carry_out(const std::vector<Task>& tasks) {
  std::vector<Task> plain;
  std::vector<Task> others;
  for (const Task& task : tasks) (is_plain(task) ? plain : others).push_back(task);
  if (!plain.empty()) {
    auto all_put = put_together(plain);
    if (!all_put) return Failure(std::move(all_put).error());
    if (*all_put) {
      for (const Task& task : plain) finish(task, Outcome::kDone);
    } else {
      others.insert(others.end(), plain.begin(), plain.end());
    }
  }
  for (const Task& task : others) {
    auto outcome = task.wanted ? put(task) : erase(task);
    if (!outcome) return Failure(std::move(outcome).error());
    finish(task, *outcome);
  }
  return {};
}

// Whether the record is new, or has one value in the store, which is another one.
bool LiveRecords::is_plain(const Task& task) {
  if (!task.wanted) return false;
  return task.may_exist.empty() || (task.may_exist.size() == 1 && task.may_exist.front() != *task.wanted);
}

// False: the store has another value of one of them, and nothing is put.
Result<bool> LiveRecords::put_together(const std::vector<Task>& tasks) {
  Transaction transaction;
  for (const Task& task : tasks) {
    transaction.expects.push_back(
        {task.key, task.may_exist.empty() ? std::nullopt : std::optional(task.may_exist.front())});
    transaction.changes.push_back({task.key, task.wanted, /*leased=*/true});
  }
  auto committed = store_.commit(transaction);
  if (!committed) return Failure(std::move(committed).error());
  return *committed == Commit::kCommitted;
}

Result<LiveRecords::Outcome> LiveRecords::put(const Task& task) {
  // Values come before "absent". Another host may delete the value to replace in between, and the later
  // attempt then succeeds.
  std::vector<std::optional<std::string>> own;
  for (const std::string& value : task.may_exist) {
    if (value != *task.wanted) own.emplace_back(value);
  }
  own.emplace_back(std::nullopt);
  own.emplace_back(task.wanted);
  for (const auto& value : own) {
    auto committed = store_.commit({{{task.key, value}}, {{task.key, task.wanted, /*leased=*/true}}});
    if (!committed) return Failure(std::move(committed).error());
    if (*committed == Commit::kCommitted) return Outcome::kDone;
  }
  return Outcome::kForeign;
}

Result<LiveRecords::Outcome> LiveRecords::erase(const Task& task) {
  for (const std::string& value : task.may_exist) {
    auto committed = store_.commit({{{task.key, value}}, {{task.key, std::nullopt}}});
    if (!committed) return Failure(std::move(committed).error());
    if (*committed == Commit::kCommitted) break;
  }
  return Outcome::kDone;  // this process does not hold the key; another host may
}

void LiveRecords::finish(const Task& task, Outcome outcome) {
  const std::lock_guard lock(mutex_);
  const auto it = entries_.find(task.key);
  if (it == entries_.end()) return;  // clear() has removed the entry
  Entry& entry = it->second;
  const bool as_asked = entry.serial == task.serial;
  queue(task.key, entry);  // to the end: a record that changes all the time, or fails, delays no other
  if (outcome == Outcome::kForeign) {
    if (as_asked) entry.retry_at = std::chrono::steady_clock::now() + kForeignPause;
    if (!std::exchange(entry.foreign, true)) {
      ++conflicts_;
      report(task);
    }
    return;
  }
  if (std::exchange(entry.foreign, false) && task.wanted) {
    log::info("live record {}: this host holds it now", task.key);
  }
  entry.may_exist.clear();
  if (task.wanted) entry.may_exist.push_back(*task.wanted);
  if (!as_asked) return;
  entry.pace = Pace::kLimited;  // of what comes later
  pending_.erase(std::exchange(entry.place, 0));
  if (!task.wanted) entries_.erase(task.key);
}

void LiveRecords::report(const Task& task) {
  if (!log_limit_.allow(Instant::now())) return;
  if (task.key == live_host_key(host_)) {
    log::error("another pvrdmad with the name {} is alive: give one of the two another [host] name", host_);
    return;
  }
  log::warn("live record {}: another host holds it: trying again until it is free", task.key);
}

}  // namespace pvrdma::control
