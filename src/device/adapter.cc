// The adapter as a whole: construction, the driver's life, the engine's events, progress and views.
// adapter_handler.cc has the vfio-user side.
#include "device/adapter.h"

#include <algorithm>
#include <cerrno>
#include <fmt/core.h>
#include <iterator>
#include <new>
#include <utility>

#include "base/events.h"
#include "device/adapter_loading.h"
#include "device/capabilities.h"
#include "device/device_version.h"
#include "guestmem/mapped_memory.h"

namespace pvrdma::device {
namespace {

constexpr std::uint32_t kPort = 1;

std::shared_ptr<guestmem::MappedMemory> mapped_memory_of(const AdapterConfig& config) {
  return std::make_shared<guestmem::MappedMemory>(
      fmt::format("adapter {}'s budget", config.name), "budgets.",
      guestmem::MappedMemory::Limits{std::min(verbs::to_units(Budget::kMapped, config.budgets.mapped_mib),
                                              guestmem::kDefaultTotalMappedBytes),
                                     std::min(config.budgets.mappings, guestmem::kMappingsMax)},
      config.host != nullptr ? config.host->mapped() : nullptr);
}

}  // namespace

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
  return std::unique_ptr<Adapter>(
      new Adapter(config, *identity, std::move(*doorbell_memory), port, clock, std::move(memory_queue)));
}

Adapter::Adapter(const AdapterConfig& config, const SavedIdentity& identity,
                 std::unique_ptr<DoorbellMemory> doorbell_memory, verbs::SwitchPort& port, const Clock& clock,
                 std::shared_ptr<ReaperQueue> memory_queue)
    : config_(config),
      identity_(identity),
      caps_(caps_of(identity.limits, identity.rules, config.mac)),
      clock_(clock),
      doorbell_memory_(std::move(doorbell_memory)),
      port_(port),
      memory_(memory_queue, mapped_memory_of(config)),
      account_(within(identity.limits, config.budgets), config.host),
      log_(config.name, clock),
      rates_(config.budgets, log_),
      pci_config_(uar_bar_bytes(identity.limits.max_context)),
      rings_(memory_, interrupts_, counters_, identity.limits.max_cq),
      engine_(identity_.limits, identity_.rules, memory_, *this, port, account_),
      doorbells_(identity.limits.max_context, engine_),
      poller_(identity.rules.mapped_doorbells ? identity.limits.max_context : 0, *doorbell_memory_,
              doorbells_, engine_),
      commands_(config.hardware_version, identity_.limits, identity_.rules, memory_, engine_, rings_,
                counters_, poller_),
      registers_(device_version(config.hardware_version), config.mac, interrupts_, *this),
      stream_(std::move(memory_queue), config.host) {
  memory_.tell(&port_);
}

Adapter::~Adapter() = default;

bool Adapter::run(Instant now) {
  if (is_stopped()) [[unlikely]]
    return run_stopped();
  const bool stopped = failed();
  const bool rung = poller_.any_open() && look_at_doorbells(now);
  const bool more = engine_.run(now) || rung;  // when stopped, only memory is left to give back
  if (stopped) return more;
  rings_.drain(now);
  return more;
}

bool Adapter::look_at_doorbells(Instant now) {
  if (rates_.doorbells_held_until() > now) return false;
  const DoorbellPoller::Looked looked = poller_.look(now);
  take_doorbells(looked.doorbells, now);
  return looked.again;
}

void Adapter::on_time(Instant now) {
  if (is_stopped() || failed()) return;
  if (now >= engine_.next_deadline()) engine_.on_time(now);
  rings_.drain(now);
}

Instant Adapter::next_deadline() const {
  if (is_stopped()) return is_busy() ? Instant{} : Instant::never();
  return std::min(engine_.next_deadline(), rings_.retry_at());
}

void Adapter::set_link(bool up) {
  if (is_stopped()) {
    link_meanwhile_ = up;
    return;
  }
  if (up == commands_.link_is_up()) return;
  commands_.set_link(up);
  events::tell(log::Level::kInfo, {events::Type::kLink, events::Kind::kVm, config_.name},
               "adapter {}: link {}", config_.name, up ? "up" : "down");
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
  info.mtu_bytes = abi::mtu_bytes(identity_.limits.mtu);
  info.state = state_;
  info.connected = is_here(client_);
  info.link_up = commands_.link_is_up();
  if (region_) {
    info.driver_version = region_->driver_version;
    info.guest_os = describe_guest_os(region_->guest_os);
  }
  // A VMM that shares its memory has sent a file descriptor with it. ROMs come without one. With
  // aux-ram-share=on a QEMU that keeps the guest's memory to itself still shares other memory, so only the
  // driver's attempt shows it.
  const bool shares_nothing = memory_.map_count() != 0 && memory_.ram_bytes() == 0;
  if (shares_nothing || region_defect_ == RegionDefect::kNotShared)
    info.trouble = kNoSharedMemory;
  else if (region_defect_)
    info.trouble = fmt::format("the driver's shared region was refused: {}", describe(*region_defect_));
  else if (!map_trouble_.empty())
    info.trouble = fmt::format("the VMM could not share all of its guest's memory: {}", map_trouble_);
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
  info.device_counters.slow_interrupts = interrupts_.slow_total();
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
  log_.qp_failed(qpn, why);
}

std::uint32_t Adapter::load_shared_region(std::uint64_t address) {
  drop_driver();
  try {
    return try_load_shared_region(address);
  } catch (const std::bad_alloc&) {
    drop_driver();  // also ends the life of a driver before
    return ENOMEM;
  }
}

std::uint32_t Adapter::try_load_shared_region(std::uint64_t address) {
  auto loaded = pci_config_.is_bus_master() ? load_region(memory_, guestmem::GuestPhys{address},
                                                          page_frames_of(config_.hardware_version), caps_)
                                            : tl::unexpected(RegionDefect::kNoBusMaster);
  if (loaded && !rings_.attach(*loaded)) loaded = tl::unexpected(RegionDefect::kAsyncRing);
  if (!loaded) {
    ++counters_.shared_region_errors;
    log_.region_refused(address, loaded.error());
    region_defect_ = loaded.error();
    return EFAULT;
  }
  region_ = std::move(*loaded);
  region_defect_.reset();
  state_ = AdapterState::kAttached;
  log_.driver_seen(*region_);
  return 0;
}

std::uint32_t Adapter::activate() {
  if (state_ == AdapterState::kActive) return 0;
  if (state_ != AdapterState::kAttached) return ENODEV;
  state_ = AdapterState::kActive;
  log_.driver_says("activated");
  return 0;
}

// The guest's network device came up. There is nothing to unquiesce: the answer lets the guest raise its own
// port event.
std::uint32_t Adapter::unquiesce() {
  return state_ == AdapterState::kActive ? 0 : ENODEV;
}

std::uint32_t Adapter::reset_by_driver() {
  drop_driver();
  interrupts_.reset();
  ++counters_.resets;
  log_.driver_says("reset by the driver");
  return 0;
}

// Without bus mastering the device must not access memory or raise an interrupt. So the driver's life ends:
// its peers see what they see when a VM stops answering. Linux switches it off before a kexec.
void Adapter::obey_bus_master() {
  if (pci_config_.is_bus_master() || state_ == AdapterState::kDetached || state_ == AdapterState::kFailed)
    return;
  drop_driver();
  interrupts_.reset();
  ++counters_.resets;
  log_.driver_says("its guest has switched off bus mastering, which ends the driver's objects");
}

std::uint32_t Adapter::execute_command() {
  ++counters_.commands;
  const Instant now = clock_.now();
  rates_.count_command(now);
  if (state_ != AdapterState::kActive) {
    ++counters_.command_errors.not_ready;
    return ENODEV;
  }
  account_.forget_refusal();
  const CommandExecutor::Executed executed = commands_.execute(*region_, now);
  if (executed.response_due) interrupts_.raise(abi::Vector::kResponse);
  if (executed.err != 0) {
    account_.count_refusal();
    log_.command_refused(executed, account_);
  }
  rings_.drain(now);
  return executed.err;
}

std::vector<BudgetUse> Adapter::budget_uses() const {
  std::vector<BudgetUse> uses;
  for (const Budget budget :
       {Budget::kQps, Budget::kCqs, Budget::kSrqs, Budget::kMrs, Budget::kRegistered, Budget::kRings}) {
    uses.push_back(account_.use(budget));
  }
  uses.push_back(verbs::to_use(Budget::kMapped, memory_.account().bytes()));
  uses.push_back(verbs::to_use(Budget::kMappings, memory_.account().mappings()));
  uses.push_back(account_.use(Budget::kNatives));
  std::ranges::copy(rates_.uses(clock_.now()), std::back_inserter(uses));
  return uses;
}

// Whether the client's memory is damaged. The first call that finds that stops everything.
bool Adapter::failed() {
  if (state_ == AdapterState::kFailed) return true;
  if (!memory_.damaged() && !doorbell_memory_->damaged()) [[likely]]
    return false;
  drop_driver();
  state_ = AdapterState::kFailed;
  log_.memory_taken_away();
  return true;
}

// Ends the driver's life. When it returns, the driver has no objects left, and its memory is not accessed
// again.
void Adapter::drop_driver() {
  poller_.close_all();
  engine_.reset();
  rings_.detach();
  region_.reset();
  state_ = AdapterState::kDetached;
}

void Adapter::power_on(LifeEvent event) {
  drop_driver();
  region_defect_.reset();
  map_trouble_.clear();
  registers_.reset();
  interrupts_.reset();
  pci_config_.reset();
  end_migration(event);
}

}  // namespace pvrdma::device
