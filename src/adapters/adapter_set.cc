#include "adapters/adapter_set.h"

#include <algorithm>
#include <new>
#include <utility>

#include "adapters/adapter_setup.h"
#include "base/log.h"
#include "device/adapter.h"

namespace pvrdma::adapters {
namespace {

constexpr std::uint32_t kNativeLogBurst = 100;
constexpr Duration kNativeLogInterval = std::chrono::seconds(1);

void announce(const ServedAdapter& adapter) {
  const device::AdapterInfo info = adapter.adapter().info();
  log::info("adapter {}: hardware version {}, RoCE {}, doorbells {}, waits for its VM at {}", info.name,
            number_of(info.hardware_version), to_text(info.roce), to_text(info.doorbells), adapter.socket());
}

bool same_adapter(const WantedAdapter& a, const WantedAdapter& b) {
  return a.config == b.config && a.memory_mib == b.memory_mib && a.segment == b.segment &&
         a.trouble == b.trouble;
}

// Whether an adapter that was made for `made` can serve `wanted`.
bool still_fits(const ServedAdapter& adapter, const WantedAdapter& made, const WantedAdapter& wanted) {
  if (!same_adapter(made, wanted)) return false;
  const bool is_away = adapter.home() != device::Home::kThisHost;
  if (wanted.is_arriving) return is_away;
  return !is_away || adapter.has_client();  // false: the VM has yet to arrive
}

}  // namespace

AdapterSet::AdapterSet(fabric::Fabric& fabric, shard::Loop& loop, const Clock& clock, PowerObserver* power,
                       const Budgets& vm_budgets, verbs::HostAccount* account, Reaper* reaper,
                       const NativeLinks* natives, Keeping* keeping, OffenceObserver* offences)
    : fabric_(fabric),
      loop_(loop),
      clock_(clock),
      power_(power),
      natives_(natives),
      parts_{.loop = loop,
             .clock = clock,
             .reaper = reaper,
             .keeping = keeping,
             .offences = offences,
             .on_client = [this](const ServedAdapter& adapter,
                                 bool connected) { on_client(adapter, connected); },
             .on_engine_gone = [this](const verbs::Engine& engine) { on_engine_gone(engine); }},
      vm_budgets_(vm_budgets),
      account_(account),
      native_log_(kNativeLogBurst, kNativeLogInterval) {}

AdapterSet::~AdapterSet() {
  if (started_) loop_.remove(*this);
}

Result<void> AdapterSet::add_static(const control::AdapterConfig& config) {
  reserve(config.name);
  const auto given = given_to(config.name);
  AdapterSetup setup = to_setup(config, config.budgets, account_);
  keep_to_client(setup, given.get());
  auto adapter = ServedAdapter::create(setup, fabric_.segment(transport::SegmentId{}), parts_, given.get());
  if (!adapter) return Failure(std::move(adapter).error());
  adapters_.push_back(*std::move(adapter));
  statics_.emplace(config.name, config);
  return {};
}

Result<void> AdapterSet::start() {
  for (const auto& adapter : adapters_) {
    if (auto started = adapter->start(); !started) return started;
  }
  for (const auto& adapter : adapters_) announce(*adapter);
  for (const auto& adapter : adapters_) take_back(*adapter);
  loop_.add(*this);
  started_ = true;
  return {};
}

void AdapterSet::set_wanted(std::vector<WantedAdapter> wanted, const std::set<std::string>& on_this_host) {
  std::map<std::string, WantedAdapter> by_vm;
  for (WantedAdapter& each : wanted) by_vm.emplace(each.config.name, std::move(each));
  wanted_ = std::move(by_vm);
  reconcile();
  if (parts_.keeping != nullptr) parts_.keeping->drop_all_but(on_this_host);
}

std::shared_ptr<const GivenBack> AdapterSet::given_to(const std::string& name) const {
  return parts_.keeping != nullptr ? parts_.keeping->given(name) : nullptr;
}

void AdapterSet::take_back(ServedAdapter& adapter) {
  const std::string& name = adapter.port().name();
  const auto given = given_to(name);
  if (given == nullptr) return;
  if (auto taken = adapter.take_back(*given); !taken) {
    log::error("adapter {}: cannot be taken back: its VM has no adapter until the VM is started again: {}",
               name, taken.error().message);
  }
  parts_.keeping->taken_back(name);
}

ServedAdapter* AdapterSet::find(const std::string& name) const {
  const auto it = std::ranges::find(adapters_, name, [](const auto& each) { return each->port().name(); });
  return it == adapters_.end() ? nullptr : it->get();
}

std::vector<AdapterTrouble> AdapterSet::troubles() const {
  std::vector<AdapterTrouble> all;
  for (const auto& [vm, provided] : provided_) {
    if (!provided.trouble.empty()) all.push_back({vm, provided.trouble});
  }
  return all;
}

NativeAccess AdapterSet::native_access(const ServedAdapter& adapter) const {
  if (natives_ == nullptr) return {"this host has no links"};
  const fabric::Port& port = adapter.port();
  return natives_->access_of(port.fabric_switch().segment(), port.identity().may_reach_natives,
                             adapter.adapter().mtu_bytes());
}

bool AdapterSet::is_static(const std::string& name) const {
  return statics_.contains(name);
}

// Logs whether the adapter reaches native endpoints, if its segment allows that.
void AdapterSet::report_natives(const ServedAdapter& adapter) {
  if (natives_ == nullptr || !natives_->allows(adapter.port().fabric_switch().segment())) return;
  if (!native_log_.allow(clock_.now())) return;
  const NativeAccess access = native_access(adapter);
  const std::string trouble = access.why_not.empty() ? device_trouble(access) : std::string(access.why_not);
  if (trouble.empty()) {
    log::info("adapter {} reaches native endpoints by {}{}", adapter.port().name(), access.link.to_string(),
              log::held_back(native_log_));
  } else {
    log::warn("adapter {} reaches no native endpoints: {}{}", adapter.port().name(), trouble,
              log::held_back(native_log_));
  }
}

void AdapterSet::on_client(const ServedAdapter& adapter, bool connected) {
  if (connected) report_natives(adapter);
  if (is_static(adapter.port().name())) return;
  // The observer is not told about a VM that belongs to another host. When its client leaves, the work that
  // was waiting for that can start.
  if (adapter.home() != device::Home::kThisHost) {
    if (!connected) due_ = clock_.now();
    return;
  }
  if (power_ != nullptr) power_->on_power(adapter.port().name(), connected);
  if (!connected) due_ = clock_.now();  // starts what waited for the client to leave
}

void AdapterSet::on_engine_gone(const verbs::Engine& engine) {
  for (const auto& each : adapters_) {
    if (each->fault() != nullptr) each->fault()->forget(engine);
  }
}

// The loop allows no Pollable to be added or removed during its round of Pollables, so a posted task does it.
void AdapterSet::on_time(Instant now) {
  due_ = now + kRetryInterval;
  try {
    if (loop_.post({[this] { reconcile(); }, "updating the adapters"})) due_ = Instant::never();
  } catch (const std::bad_alloc&) {  // tries again later
  }
}

void AdapterSet::reconcile() {
  due_ = clock_.now() + kRetryInterval;
  try {
    drop_unwanted();
    for (const auto& [vm, wanted] : wanted_) provide(wanted);
  } catch (const std::bad_alloc&) {
    log::warn("changes of adapters are delayed: there is no memory");
    return;
  }
  const bool all_well = std::all_of(provided_.begin(), provided_.end(), [](const auto& entry) {
    return entry.second.trouble.empty() && !entry.second.is_outdated();
  });
  due_ = all_well ? Instant::never() : clock_.now() + kRetryInterval;
}

// Removes adapters that are not wanted, or wanted with other properties.
void AdapterSet::drop_unwanted() {
  for (auto it = provided_.begin(); it != provided_.end();) {
    Provided& provided = it->second;
    const auto wanted = wanted_.find(it->first);
    const bool gone = wanted == wanted_.end();
    if (provided.is_moving()) {
      ++it;
      continue;
    }
    if (provided.adapter != nullptr &&
        (gone || provided.is_outdated() || !still_fits(*provided.adapter, provided.made, wanted->second))) {
      if (provided.adapter->has_client()) {
        // A client that connects right after this one must not get the old adapter.
        provided.adapter->refuse_clients("VM " + it->first + " was changed while it was on: connect again");
        ++it;
        continue;
      }
      remove(provided);
    }
    it = gone ? provided_.erase(it) : std::next(it);
  }
}

void AdapterSet::provide(const WantedAdapter& wanted) {
  Provided& provided = provided_[wanted.config.name];
  if (provided.adapter == nullptr) {
    Provided fresh{wanted, nullptr, {}};  // allocates; after make() nothing may
    auto made = make(fresh);
    if (!made) {
      if (provided.trouble != made.error().message) {
        log::warn("adapter {} is not served until this is corrected: {}", wanted.config.name,
                  made.error().message);
      }
      provided.trouble = std::move(made).error().message;
      return;
    }
    provided = std::move(fresh);
  }
  if (provided.is_moving()) return;
  if (!still_fits(*provided.adapter, provided.made, wanted)) return;
  provided.adapter->refuse_clients(wanted.refusal);
  if (!wanted.is_arriving && provided.adapter->home() == device::Home::kUnclaimed) {
    // The daemon's previous process was bringing the VM here, and that attempt ended with it.
    provided.adapter->arrive();
    log::warn("adapter {}: its VM is on this host now, but its guest's objects are lost: reload the driver",
              wanted.config.name);
  }
}

// Makes the adapter that `made` describes.
Result<void> AdapterSet::make(Provided& provided) {
  const WantedAdapter& wanted = provided.made;
  if (reserved_.contains(wanted.config.name)) {
    return fail("the configuration file of this host has an adapter of that name: rename one of them");
  }
  const auto given = given_to(wanted.config.name);
  if (!wanted.trouble.empty()) {
    if (given == nullptr || !given->record.has_client) return fail(wanted.trouble);
    // A VM that runs keeps its adapter, and the adapter's socket its owner.
    provided.made.config.owner = owner_of(wanted.config.socket);
    provided.made.trouble.clear();
  }
  AdapterSetup setup = to_setup(wanted, vm_budgets_, account_);
  setup.is_arriving = wanted.is_arriving;
  provided.is_as_before = keep_to_client(setup, given.get());
  auto adapter = ServedAdapter::create(setup, fabric_.segment(wanted.segment), parts_, given.get());
  if (!adapter) return Failure(std::move(adapter).error());
  if (auto started = (*adapter)->start(); !started) return Failure(std::move(started).error());
  announce(**adapter);
  adapters_.push_back(*std::move(adapter));
  take_back(*adapters_.back());
  provided.adapter = adapters_.back().get();
  return {};
}

void AdapterSet::remove(Provided& provided) {
  log::info("adapter {}: no longer waits at {}", provided.made.config.name, provided.adapter->socket());
  provided.adapter->end_successor();
  destroy(*provided.adapter);
  provided.adapter = nullptr;
}

void AdapterSet::destroy(const ServedAdapter& adapter) {
  on_engine_gone(adapter.engine());
  std::erase_if(adapters_, [&adapter](const auto& each) { return each.get() == &adapter; });
}

}  // namespace pvrdma::adapters
