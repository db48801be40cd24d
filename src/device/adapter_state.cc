// The adapter's saving and loading (ADR 16). saved.h has the values that represent its parts; parts_state.cc
// converts between them and the parts.
#include <algorithm>
#include <cstring>
#include <fmt/core.h>
#include <new>
#include <span>

#include "device/adapter.h"
#include "device/describe.h"
#include "device/differing.h"

namespace pvrdma::device {
namespace {

template <typename Saved>
void write(state::Writer& writer, state::RecordKind kind, Saved saved) {
  writer.begin(kind);
  describe(writer, saved);
  writer.end();
}

// Reads the next record, which must be of that kind. Optional records in between are skipped.
template <typename Saved>
void read(state::Reader& reader, state::RecordKind kind, Saved& saved) {
  while (const auto record = reader.next()) {
    if (record->kind == kind) return describe(reader, saved);
    if (record->must_be_understood && record->kind.kind != kind.kind)
      reader.refuse("a record of the adapter is missing, or out of order");
    else
      reader.skip(*record);
  }
  reader.refuse("it ends before the adapter's last record");
}

constexpr std::uint32_t kPort = 1;

// All of the adapter except its engine.
struct SavedAdapter {
  SavedIdentity identity;
  PciState pci;
  SavedRegisters registers;
  SavedInterrupts interrupts;
  SavedDriver driver;
  SavedEventRings rings;
  SavedDoorbells doorbells;
  SavedRates rates;
  Counters counters;
};

void read_adapter(state::Reader& reader, const SavedIdentity& here, SavedAdapter& saved) {
  auto& [identity, pci, registers, interrupts, driver, rings, doorbells, rates, counters] = saved;
  read(reader, kIdentityRecord, identity);
  if (!reader.failed()) {
    if (const auto other = differing(here, identity)) reader.refuse(*other);
  }
  read(reader, kPciRecord, pci);
  read(reader, kRegistersRecord, registers);
  read(reader, kInterruptsRecord, interrupts);
  read(reader, kDriverRecord, driver);
  read(reader, kEventRingsRecord, rings);
  read(reader, kDoorbellsRecord, doorbells);
  read(reader, kRatesRecord, rates);
  read(reader, kDeviceCountersRecord, counters);
}

bool holds_nothing(const SavedEventRings& rings) {
  return rings.pending_cqs.empty() && rings.held.empty();
}

bool is_empty(const verbs::Engine& engine) {
  const verbs::Engine::ObjectCounts counts = engine.object_counts();
  return counts.contexts + counts.pds + counts.mrs + counts.cqs + counts.qps + counts.srqs == 0 &&
         std::ranges::none_of(engine.gids().entries(), [](const auto& entry) { return entry.has_value(); });
}

}  // namespace

Result<SavedIdentity> read_identity(state::Reader& reader) {
  SavedIdentity identity;
  read(reader, kIdentityRecord, identity);
  if (std::ranges::find(kHardwareVersions, identity.hardware_version) == kHardwareVersions.end())
    reader.refuse(fmt::format("no adapter has hardware version {}", number_of(identity.hardware_version)));
  if (reader.failed()) return Failure(reader.result().error());
  return identity;
}

PciState Adapter::pci_state(const std::optional<MsixTable>& table) const {
  PciState state{
      .config = {}, .has_msix_table = table.has_value(), .msix_table = table.value_or(MsixTable{})};
  std::memcpy(state.config.data(), pci_config_.bytes().data(), state.config.size());
  return state;
}

void Adapter::save(state::Writer& writer, const std::optional<MsixTable>& table, Instant now) const {
  save_device(writer, table, rings_.save(now), poller_.save(), now);
  engine_.save(writer, now);
}

// Only the guest's memory will know where the rings are written next.
void Adapter::save_without_objects(state::Writer& writer, Instant now) const {
  SavedEventRings rings = rings_.save(now);
  rings.async = {};
  rings.notifications = {};
  rings.pending_cqs.clear();
  rings.drain_from_cq = 0;
  save_device(writer, std::nullopt, rings, {}, now);
  engine_.save_without_objects(writer);
}

// Saves all of the adapter except its engine.
void Adapter::save_device(state::Writer& writer, const std::optional<MsixTable>& table,
                          const SavedEventRings& saved_rings, const SavedDoorbells& saved_doorbells,
                          Instant now) const {
  // The following belong to this host and are not saved: the memory with its account and refusals, the
  // client, the adapter's life, why its last region or a map was refused, and the log.
  const auto& [config, identity, caps, clock, doorbell_memory, port, memory, account, counters, log, rates,
               pci_config, interrupts, rings, engine, doorbells, poller, commands, registers, adapter_state,
               region, region_defect, map_trouble, work, client, stream, link_meanwhile] = *this;
  write(writer, kIdentityRecord, identity);
  write(writer, kPciRecord, pci_state(table));
  write(writer, kRegistersRecord, registers.save());
  write(writer, kInterruptsRecord, interrupts.save());
  write(writer, kDriverRecord,
        SavedDriver{.state = adapter_state,
                    .link_up = commands.link_is_up(),
                    .region = region ? device::save(*region) : SavedRegion{}});
  write(writer, kEventRingsRecord, saved_rings);
  write(writer, kDoorbellsRecord, saved_doorbells);
  write(writer, kRatesRecord, rates.save(now));
  write(writer, kDeviceCountersRecord, counters);
}

Result<PciState> Adapter::load(state::Reader& reader, Instant now) {
  return load(reader, DoorbellPoller::Words::kSaved, now);
}

Result<void> Adapter::take_back(state::Reader& reader, Objects objects, Instant now) {
  const auto pci = load(reader, DoorbellPoller::Words::kInMemory, now);
  if (!pci) return Failure(pci.error());
  const bool fits = pci_config_.write(0, std::as_bytes(std::span(pci->config)));
  PVRDMA_CHECK(fits, "the whole of the configuration space");
  obey_bus_master();
  if (state_ != AdapterState::kActive) return {};
  engine_.on_all_paths_restored(now);
  if (objects == Objects::kLost) rings_.post(abi::EventType::kDeviceFatal, kPort);
  resume();
  return {};
}

Result<PciState> Adapter::load(state::Reader& reader, DoorbellPoller::Words words, Instant now) {
  if (failed() || state_ != AdapterState::kDetached) {
    reader.refuse("the adapter that loads it is in use");
    return Failure(reader.result().error());
  }
  const verbs::Counters counted = engine_.counters();
  SavedAdapter saved;
  std::optional<SharedRegion> region;
  bool engine_loaded = false;
  try {
    read_adapter(reader, identity_, saved);
    if (!reader.failed()) region = restore_rings(saved.driver, saved.rings, reader, now);
    engine_loaded = !reader.failed() && engine_.load(reader, now).has_value();
    if (engine_loaded) check_whole(saved.driver, saved.doorbells, reader);
  } catch (const std::bad_alloc&) {
    reader.refuse("there is no memory for it");
  }
  if (reader.failed()) {
    if (engine_loaded) engine_.unload(counted);
    rings_.detach();
    return Failure(reader.result().error());
  }
  registers_.restore(saved.registers);
  interrupts_.restore(saved.interrupts);
  commands_.set_link(saved.driver.link_up);
  poller_.restore(saved.doorbells, words);
  rates_.restore(saved.rates, now);
  counters_ = saved.counters;
  region_ = std::move(region);
  state_ = saved.driver.state;
  work_.on(LifeEvent::kLoaded);
  return saved.pci;
}

// The driver's region with its rings attached. Empty without a driver, or if the state was refused.
std::optional<SharedRegion> Adapter::restore_rings(const SavedDriver& driver, const SavedEventRings& rings,
                                                   state::Reader& reader, Instant now) {
  std::optional<SharedRegion> region;
  if (!has_region(driver.state)) {
    if (!holds_nothing(rings)) reader.refuse("events without a driver");
    return region;
  }
  region = restore(driver.region, page_frames_of(config_.hardware_version));
  if (!region) {
    reader.refuse("the shared region is invalid");
  } else if (!rings_.restore(rings, *region, now)) {
    reader.refuse("the event rings' values are invalid");
  }
  return region;
}

// Checks that device and engine agree, now that both are loaded, and that nothing follows in the stream.
void Adapter::check_whole(const SavedDriver& driver, const SavedDoorbells& doorbells, state::Reader& reader) {
  if (reader.next()) reader.refuse("it contains more than an adapter");
  if (driver.state != AdapterState::kActive && !is_empty(engine_))
    reader.refuse("objects without an active driver");
  std::vector<verbs::UarIndex> pages;
  for (const SavedDoorbellPage& page : doorbells.pages) pages.push_back(page.uar);
  const bool pages_ok = identity_.rules.mapped_doorbells ? pages == engine_.contexts() : pages.empty();
  if (!pages_ok) reader.refuse("its doorbell pages do not match its contexts");
}

void Adapter::stand_by() {
  drop_driver();
  registers_.reset();
  interrupts_.reset();
  end_migration(LifeEvent::kStandBy);
}

void Adapter::resume(Vmm vmm) {
  obey_bus_master();
  if (failed() || state_ != AdapterState::kActive) return;
  if (vmm == Vmm::kAnother) interrupts_.raise(abi::Vector::kResponse);
  interrupts_.raise(abi::Vector::kAsyncEvent);
  interrupts_.raise(abi::Vector::kNotification);
}

}  // namespace pvrdma::device
