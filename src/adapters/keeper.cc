#include "adapters/keeper.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <string_view>
#include <utility>

#include "base/control_thread.h"
#include "base/log.h"
#include "base/whole_number.h"
#include "keep/memory_file.h"

namespace pvrdma::adapters {
namespace {

using device::Adapter;

constexpr std::string_view kInstance = "@host/instance/";  // not an adapter's name, which has no '@'
constexpr std::string_view kRecord = "record/";
// Collects the many changes of a VMM that is starting.
constexpr Duration kPause = std::chrono::milliseconds(50);
constexpr Duration kPatience = std::chrono::seconds(5);
constexpr Duration kRetry = std::chrono::seconds(1);
// Lines on one adapter that is not kept. Its VMM decides how often it changes.
constexpr std::uint32_t kTroubleBurst = 2;
constexpr Duration kTroubleInterval = std::chrono::seconds(10);

// The descriptors of one adapter that came back from the store.
struct Came {
  std::map<KeptId, Fd> fds;
  std::map<std::uint64_t, Fd> records;
};

Result<GivenBack> read(Came came) {
  if (came.records.empty()) return fail(ENOENT, "its record is missing");
  auto stream = keep::from_memory_file(came.records.rbegin()->second, Keeper::kStreamBytesMax);
  if (!stream) return Failure(std::move(stream).error());
  return read_kept(std::move(came.fds), *std::move(stream));
}

}  // namespace

Keeper::Keeper(keep::DescriptorStore& store, const Clock& clock)
    : store_(store), clock_(clock), keeping_([this] { notice(); }) {
  take(store.take());
}

Keeper::~Keeper() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
}

void Keeper::take(std::map<std::string, Fd> came) {
  std::map<std::string, Came> by_adapter;
  for (auto& [name, fd] : came) {
    if (name.starts_with(kInstance)) {
      instance_ = name.substr(kInstance.size());
      continue;
    }
    useless_.insert(name);
    const auto slash = name.find('/');
    if (slash == std::string::npos) continue;
    Came& of_adapter = by_adapter[name.substr(0, slash)];
    const std::string_view rest = std::string_view(name).substr(slash + 1);
    if (rest.starts_with(kRecord)) {
      if (const auto number = whole_number<std::uint64_t>(rest.substr(kRecord.size()))) {
        last_record_ = std::max(last_record_, *number);
        of_adapter.records.emplace(*number, std::move(fd));
      }
    } else if (const auto id = whole_number<std::uint64_t>(rest)) {
      keeping_.skip_ids_to(*id);
      of_adapter.fds.emplace(*id, std::move(fd));
    }
  }
  for (auto& [adapter, all] : by_adapter) {
    auto given = read(std::move(all));
    if (given)
      given_.emplace(adapter, *std::move(given));
    else
      log::error("adapter {}: its kept state cannot be used: {}", adapter, given.error().message);
  }
}

std::set<std::string> Keeper::give_back(const std::function<bool(const std::string&)>& may_be) {
  std::erase_if(given_, [&may_be](const auto& each) {
    if (may_be(each.first)) return false;
    log::warn("adapter {}: it was kept, but no adapter has that name any more: its client loses it",
              each.first);
    remove_files(each.second);
    return true;
  });
  const auto belongs = [this](const std::string& name) {
    return given_.contains(name.substr(0, name.find('/')));
  };
  std::erase_if(useless_, belongs);
  for (const std::string& name : useless_) remove(name);
  if (const auto settled = useless_.empty() ? Result<void>() : store_.settle(); !settled)
    log::warn("useless descriptors may stay in the descriptor store: {}", settled.error().message);
  std::set<std::string> names;
  for (const auto& [name, given] : given_) names.insert(name);
  keeping_.give_back(std::exchange(given_, {}));
  return names;
}

void Keeper::remove(const std::string& name) {
  if (auto removed = store_.remove(name); !removed)
    log::warn("{} stays in the descriptor store: {}", name, removed.error().message);
}

Result<void> Keeper::keep_instance(const std::string& instance) {
  const std::string name = std::string(kInstance) + instance;
  forget("@host/", {name});
  if (store_.names().contains(name)) return {};
  const auto nothing = keep::to_memory_file({});
  if (!nothing) return Failure(nothing.error());
  return store_.put(name, *nothing);
}

void Keeper::start(const Shards& shards) {
  shards_ = &shards;
  thread_ = std::thread([this] { run(); });
}

bool Keeper::keeps_clients() const {
  const std::lock_guard lock(mutex_);
  return std::ranges::any_of(has_client_, [](const auto& each) { return each.second; });
}

void Keeper::notice() {
  {
    const std::lock_guard lock(mutex_);
    noticed_ = true;
  }
  wake_.notify_all();
}

void Keeper::run() {
  begin_control_thread("keeper");
  std::unique_lock lock(mutex_);
  while (true) {
    wake_.wait(lock, [this] { return noticed_ || stopping_; });
    if (stopping_) return;
    noticed_ = false;
    wake_.wait_for(lock, kPause, [this] { return stopping_; });
    lock.unlock();
    const bool is_complete = collect_and_store();
    lock.lock();
    if (is_complete) continue;
    wake_.wait_for(lock, kRetry, [this] { return stopping_; });
    noticed_ = true;
  }
}

// Returns false if a shard did not answer. What the others have collected is stored all the same, because
// they will not collect it again.
bool Keeper::collect_and_store() {
  std::set<std::string> all = not_taken_back();  // asked first: one that is taken back later is seen twice
  const auto collected = shards_->ask_all(
      [this](std::size_t shard) { return collect((*shards_)[shard].adapters, Adapter::Objects::kLost); },
      "recording the kept adapters", {kPatience, kPatience});
  bool is_complete = true;
  for (const auto& of_shard : collected) {
    if (!of_shard) {
      is_complete = false;
      continue;
    }
    store(of_shard->changed);
    all.insert(of_shard->all.begin(), of_shard->all.end());
  }
  if (is_complete) forget_all_but(all);
  return is_complete;
}

// Allocates under no lock that a shard takes.
std::set<std::string> Keeper::not_taken_back() const {
  std::set<std::string> adapters;
  for (const std::string& name : store_.names()) {
    std::string adapter = name.substr(0, name.find('/'));
    if (keeping_.given(adapter) != nullptr) adapters.insert(std::move(adapter));
  }
  return adapters;
}

// Called on the shard of `adapters`, or after it has ended.
Keeper::Collected Keeper::collect(const AdapterSet& adapters, Adapter::Objects objects) const {
  Collected collected;
  for (const auto& adapter : adapters.adapters()) {
    const std::string& name = adapter->port().name();
    collected.all.insert(name);
    if (objects == Adapter::Objects::kLost && !adapter->is_to_be_kept()) continue;
    const auto is_kept = [&](KeptId id) { return store_.names().contains(fmt::format("{}/{}", name, id)); };
    collected.changed.push_back(adapter->keep(objects, is_kept, clock_.now()));
  }
  // Only after all were collected: if memory runs out for one of them, all are collected again.
  for (const auto& adapter : adapters.adapters()) adapter->note_kept();
  return collected;
}

void Keeper::store(const std::vector<KeptAdapter>& changed) {
  for (const KeptAdapter& kept : changed) {
    auto stored = store(kept);
    if (!stored) forget(kept.name + "/", {});
    if (const std::string trouble = stored ? kept.trouble : stored.error().message; !trouble.empty())
      warn_of(kept.name, trouble);
    const std::lock_guard lock(mutex_);
    has_client_[kept.name] = stored && kept.has_client;
  }
}

void Keeper::warn_of(const std::string& adapter, const std::string& trouble) {
  log::LogLimiter& limiter = told_.try_emplace(adapter, kTroubleBurst, kTroubleInterval).first->second;
  if (limiter.allow(clock_.now()))
    log::warn("adapter {}: if the daemon restarts, the VM loses this adapter: {}{}", adapter, trouble,
              log::held_back(limiter));
}

void Keeper::forget_all_but(const std::set<std::string>& adapters) {
  std::erase_if(told_, [&adapters](const auto& each) { return !adapters.contains(each.first); });
  std::set<std::string> gone;
  for (const std::string& name : store_.names()) {
    const std::string adapter = name.substr(0, name.find('/'));
    if (!adapter.starts_with('@') && !adapters.contains(adapter)) gone.insert(adapter);
  }
  for (const std::string& adapter : gone) {
    forget(adapter + "/", {});
    const std::lock_guard lock(mutex_);
    has_client_.erase(adapter);
  }
}

// Removes the old record first: it is no longer valid. Old descriptors go before new ones come, because
// systemd keeps only the first of several descriptors of one open file.
Result<void> Keeper::store(const KeptAdapter& kept) {
  std::set<std::string> wanted;
  for (const KeptId id : kept.ids) wanted.insert(fmt::format("{}/{}", kept.name, id));
  forget(kept.name + "/", wanted);
  for (const auto& [id, fd] : kept.fds) {
    if (auto put = store_.put(fmt::format("{}/{}", kept.name, id), fd); !put) return put;
  }
  const auto stream = keep::to_memory_file(kept.stream);
  if (!stream) return Failure(stream.error());
  return store_.put(fmt::format("{}/{}{}", kept.name, kRecord, ++last_record_), *stream);
}

void Keeper::forget(const std::string& prefix, const std::set<std::string>& but) {
  std::vector<std::string> old;
  for (auto it = store_.names().lower_bound(prefix); it != store_.names().end() && it->starts_with(prefix);
       ++it) {
    if (!but.contains(*it)) old.push_back(*it);
  }
  for (const std::string& name : old) remove(name);
}

void Keeper::keep_all() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
  }
  wake_.notify_all();
  if (thread_.joinable()) thread_.join();
  if (shards_ == nullptr) return;
  std::set<std::string> all = not_taken_back();
  for (const Shard& shard : *shards_) {
    const Collected collected = collect(shard.adapters, Adapter::Objects::kSaved);
    store(collected.changed);
    all.insert(collected.all.begin(), collected.all.end());
  }
  forget_all_but(all);
  for (const Shard& shard : *shards_) {
    for (const auto& adapter : shard.adapters.adapters()) adapter->leave();
  }
  if (const auto settled = store_.settle(); !settled)
    log::error("the VMs may lose their adapters: {}", settled.error().message);
}

}  // namespace pvrdma::adapters
