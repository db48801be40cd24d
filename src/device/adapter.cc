// The adapter as a whole: making it, the driver's life, the engine's events, progress and views. The
// vfio-user side is in adapter_handler.cc.
#include "device/adapter.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <new>
#include <utility>

#include "device/held_back.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kLogBurst = 10;
constexpr Duration kLogInterval = std::chrono::seconds(1);
constexpr Duration kRateLogInterval = std::chrono::seconds(10);
constexpr std::uint32_t kPort = 1;

std::shared_ptr<guestmem::MappedBytes> mapped_bytes_of(const AdapterConfig& config) {
  return std::make_shared<guestmem::MappedBytes>(
      fmt::format("adapter {}'s budget (budgets.{})", config.name, to_text(Budget::kMapped)),
      std::min(verbs::to_units(Budget::kMapped, config.budgets.mapped_mib),
               guestmem::kDefaultTotalMappedBytes),
      config.host != nullptr ? config.host->mapped() : nullptr);
}

}  // namespace

Result<SavedIdentity> Adapter::identity_of(const AdapterConfig& config) {
  const std::string who = fmt::format("adapter {}", config.name);
  if (!offers_roce(config.hardware_version, config.roce)) {
    return fail(fmt::format(
        "{}: hardware version {} offers RoCE v1 only; choose roce v1, or hardware version {} or later", who,
        number_of(config.hardware_version), number_of(kFirstWithRoceV2)));
  }
  if (auto checked = check_doorbells(config.doorbells); !checked) {
    return Failure(std::move(checked.error()).in(who));
  }
  verbs::Limits limits =
      within(config.budgets, config.limits.value_or(limits_of(config.hardware_version, config.profile)));
  limits.mtu = port_mtu(config.mtu);
  if (config.told) limits = *config.told;
  if (auto checked = check_limits(limits); !checked) return Failure(std::move(checked.error()).in(who));
  if (limits.max_srq != 0 && !offers_srq(config.hardware_version)) {
    return fail(fmt::format("{}: hardware version {} offers no shared receive queues; set max_srq to 0", who,
                            number_of(config.hardware_version)));
  }
  verbs::Rules rules = rules_of(config.hardware_version, config.roce, config.profile);
  rules.mapped_doorbells = config.doorbells == DoorbellMode::kMapped;
  return identity_of(config, limits, rules);
}

Result<std::unique_ptr<Adapter>> Adapter::create(const AdapterConfig& config, verbs::SwitchPort& port,
                                                 const Clock& clock,
                                                 std::shared_ptr<ReaperQueue> memory_queue,
                                                 Fd earlier_doorbells) {
  const auto identity = identity_of(config);
  if (!identity) return Failure(identity.error());
  auto doorbell_memory =
      DoorbellMemory::create(identity->limits.max_context, config.doorbells, std::move(earlier_doorbells));
  if (!doorbell_memory)
    return Failure(std::move(doorbell_memory.error()).in(fmt::format("adapter {}", config.name)));
  return std::unique_ptr<Adapter>(new Adapter(config, identity->limits, identity->rules,
                                              std::move(*doorbell_memory), port, clock,
                                              std::move(memory_queue)));
}

Adapter::Adapter(const AdapterConfig& config, const verbs::Limits& limits, const verbs::Rules& rules,
                 std::unique_ptr<DoorbellMemory> doorbell_memory, verbs::SwitchPort& port, const Clock& clock,
                 std::shared_ptr<ReaperQueue> memory_queue)
    : config_(config),
      limits_(limits),
      rules_(rules),
      caps_(caps_of(limits, rules, config.mac)),
      clock_(clock),
      doorbell_memory_(std::move(doorbell_memory)),
      port_(port),
      memory_(memory_queue, mapped_bytes_of(config)),
      account_(within(limits, config.budgets), config.host),
      pci_config_(uar_bar_bytes(limits.max_context)),
      rings_(memory_, interrupts_, counters_, limits.max_cq),
      engine_(limits_, rules_, memory_, *this, port, account_),
      doorbells_(limits.max_context, engine_),
      poller_(rules.mapped_doorbells ? limits.max_context : 0, *doorbell_memory_, doorbells_, engine_),
      commands_(config.hardware_version, limits_, rules_, memory_, engine_, rings_, counters_, poller_),
      registers_(device_version(config.hardware_version), config.mac, interrupts_, *this),
      command_rate_(config.budgets.commands_per_s),
      doorbell_rate_(config.budgets.doorbells_per_s),
      stream_(std::move(memory_queue), config.host),
      migration_rate_(config.budgets.commands_per_s),
      driver_log_(kLogBurst, kLogInterval),
      command_log_(kLogBurst, kLogInterval),
      access_log_(kLogBurst, kLogInterval),
      qp_log_(kLogBurst, kLogInterval),
      client_log_(kLogBurst, kLogInterval),
      rate_log_(1, kRateLogInterval) {
  memory_.tell(&port_);
}

Adapter::~Adapter() = default;

bool Adapter::run(Instant now) {
  if (is_stopped()) [[unlikely]]
    return false;
  const bool stopped = failed();
  const bool rung = poller_.any_open() && look_at_doorbells(now);
  const bool more = engine_.run(now) || rung;  // stopped: nothing is left but memory to give back
  if (stopped) return more;
  rings_.drain(now);
  return more;
}

bool Adapter::look_at_doorbells(Instant now) {
  if (doorbell_rate_.held_until() > now) return false;
  const DoorbellPoller::Looked looked = poller_.look(now);
  take_doorbells(looked.doorbells, now);
  return looked.again;
}

void Adapter::take_doorbells(std::uint32_t count, Instant now) {
  counters_.doorbells += count;
  if (doorbell_rate_.take(count, now)) [[unlikely]]
    log_slowed(Budget::kDoorbells, config_.budgets.doorbells_per_s);
}

void Adapter::on_time(Instant now) {
  if (is_stopped() || failed()) return;
  if (now >= engine_.next_deadline()) engine_.on_time(now);
  rings_.drain(now);
}

Instant Adapter::next_deadline() const {
  if (is_stopped()) return Instant::never();
  return std::min(engine_.next_deadline(), rings_.retry_at());
}

void Adapter::set_link(bool up) {
  if (is_stopped()) {
    link_meanwhile_ = up;
    return;
  }
  if (up == commands_.link_is_up()) return;
  commands_.set_link(up);
  log::info("adapter {}: link {}", config_.name, up ? "up" : "down");
  if (state_ == AdapterState::kActive)
    rings_.post(up ? abi::EventType::kPortActive : abi::EventType::kPortErr, kPort);
}

AdapterInfo Adapter::info() const {
  AdapterInfo info;
  info.name = config_.name;
  info.mac = config_.mac;
  info.hardware_version = config_.hardware_version;
  info.device_version = device_version(config_.hardware_version);
  info.roce = config_.roce;
  info.doorbells = config_.doorbells;
  info.mtu_bytes = abi::mtu_bytes(limits_.mtu);
  info.state = state_;
  info.connected = is_here(client_);
  info.link_up = commands_.link_is_up();
  if (region_) {
    info.driver_version = region_->driver_version;
    info.guest_os = describe_guest_os(region_->guest_os);
  }
  info.dma_map_count = memory_.map_count();
  info.dma_ram_bytes = memory_.ram_bytes();
  const auto& entries = engine_.gids().entries();
  for (std::uint32_t index = 0; index < entries.size(); ++index) {
    if (entries[index]) info.gids.push_back(GidInfo{index, entries[index]->gid, entries[index]->roce});
  }
  info.objects = engine_.object_counts();
  info.budgets = budget_uses();
  info.verbs_counters = engine_.counters();
  info.device_counters = counters_;
  info.device_counters.interrupts = interrupts_.raised_total();
  return info;
}

void Adapter::completion_event(verbs::CqHandle cq) {
  rings_.notify(cq);
}

void Adapter::async_event(abi::EventType type, std::uint32_t info) {
  rings_.post(type, info);
}

void Adapter::qp_failed(verbs::Qpn qpn, std::string_view why) {
  ++counters_.qp_failures;
  if (!qp_log_.allow(clock_.now())) return;
  log::warn("adapter {}: QP {} to error: {}{}", config_.name, qpn.value, why, held_back(qp_log_));
}

std::uint32_t Adapter::load_shared_region(std::uint64_t address) {
  drop_driver();
  try {
    return try_load_shared_region(address);
  } catch (const std::bad_alloc&) {
    drop_driver();  // whatever of it was there
    return ENOMEM;
  }
}

std::uint32_t Adapter::try_load_shared_region(std::uint64_t address) {
  const bool logs = driver_log_.allow(clock_.now());
  auto loaded =
      load_region(memory_, guestmem::GuestPhys{address}, page_frames_of(config_.hardware_version), caps_);
  if (loaded && !rings_.attach(*loaded)) loaded = tl::unexpected(RegionFault::kAsyncRing);
  if (!loaded) {
    ++counters_.shared_region_errors;
    if (logs)
      log::warn("adapter {}: shared region at {:#x} refused: {}{}", config_.name, address,
                describe(loaded.error()), held_back(driver_log_));
    return EFAULT;
  }
  region_ = std::move(*loaded);
  state_ = AdapterState::kAttached;
  if (logs)
    log::info("adapter {}: driver version {} seen ({})", config_.name, region_->driver_version,
              describe_guest_os(region_->guest_os));
  return 0;
}

std::uint32_t Adapter::activate() {
  if (state_ == AdapterState::kActive) return 0;
  if (state_ != AdapterState::kAttached) return ENODEV;
  state_ = AdapterState::kActive;
  if (driver_log_.allow(clock_.now())) log::info("adapter {}: activated", config_.name);
  return 0;
}

// The guest's network device came up. Nothing was quiet: the answer lets the guest raise its own port event.
std::uint32_t Adapter::unquiesce() {
  return state_ == AdapterState::kActive ? 0 : ENODEV;
}

std::uint32_t Adapter::reset_by_driver() {
  drop_driver();
  interrupts_.reset();
  ++counters_.resets;
  if (driver_log_.allow(clock_.now())) log::info("adapter {}: reset by the driver", config_.name);
  return 0;
}

std::uint32_t Adapter::execute_command() {
  ++counters_.commands;
  const Instant now = clock_.now();
  if (command_rate_.take(1, now)) log_slowed(Budget::kCommands, config_.budgets.commands_per_s);
  if (state_ != AdapterState::kActive) {
    ++counters_.command_errors.not_ready;
    return ENODEV;
  }
  account_.forget_refusal();
  const CommandExecutor::Executed executed = commands_.execute(*region_, now);
  if (executed.response_due) interrupts_.raise(abi::Vector::kResponse);
  if (executed.err != 0) account_.count_refusal();
  if (executed.err != 0 && command_log_.allow(now)) {
    log::warn("adapter {}: command {} refused: {}{}", config_.name,
              executed.command ? name_of(*executed.command) : "of unknown number",
              describe_refusal_of(executed), held_back(command_log_));
  }
  rings_.drain(now);
  return executed.err;
}

// With the budget that is used up or the attribute that is out of its range, where it is one.
std::string Adapter::describe_refusal_of(const CommandExecutor::Executed& executed) const {
  std::string why;
  if (executed.err == static_cast<std::uint32_t>(verbs::CommandError::kNoMemory))
    why = account_.last_refusal();
  else if (const auto& range = executed.out_of_range)
    why = fmt::format("{} is {}, not {} to {}", range->attribute, range->value, range->least, range->most);
  return why.empty() ? std::string(describe_refusal(executed.err)) : why;
}

void Adapter::log_slowed(Budget rate, std::uint64_t per_second) {
  if (!rate_log_.allow(clock_.now())) return;
  log::warn("adapter {}: slowed: {} {} a second are its budget (budgets.{}){}", config_.name, per_second,
            rate == Budget::kCommands ? "commands" : "doorbells", to_text(rate), held_back(rate_log_));
}

std::vector<BudgetUse> Adapter::budget_uses() const {
  std::vector<BudgetUse> uses;
  for (const Budget budget :
       {Budget::kQps, Budget::kCqs, Budget::kSrqs, Budget::kMrs, Budget::kRegistered, Budget::kRings}) {
    uses.push_back(account_.use(budget));
  }
  const guestmem::MappedBytes& mapped = memory_.account();
  uses.push_back(verbs::to_use(Budget::kMapped, mapped.used(), mapped.limit(), maps_refused_));
  const Instant now = clock_.now();
  uses.push_back({Budget::kCommands, command_rate_.last_second(now), config_.budgets.commands_per_s,
                  command_rate_.slowed()});
  uses.push_back({Budget::kDoorbells, doorbell_rate_.last_second(now), config_.budgets.doorbells_per_s,
                  doorbell_rate_.slowed()});
  return uses;
}

// True while the client's memory is damaged; the first call that sees it stops everything.
bool Adapter::failed() {
  if (state_ == AdapterState::kFailed) return true;
  if (!memory_.damaged() && !doorbell_memory_->damaged()) [[likely]]
    return false;
  drop_driver();
  state_ = AdapterState::kFailed;
  if (client_log_.allow(clock_.now())) {
    log::error(
        "adapter {}: the VMM took guest memory away while it was in use; the adapter stops until it has "
        "disconnected",
        config_.name);
  }
  return true;
}

// Ends the driver's life here. When it returns no object of it is left and its memory is not touched again.
void Adapter::drop_driver() {
  poller_.close_all();
  engine_.reset();
  rings_.detach();
  region_.reset();
  state_ = AdapterState::kDetached;
}

void Adapter::power_on(LifeEvent event) {
  drop_driver();
  registers_.reset();
  interrupts_.reset();
  pci_config_.reset();
  end_migration(event);
}

}  // namespace pvrdma::device
