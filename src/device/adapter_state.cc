// The adapter's saving, and how it continues (ADR 16). saved.h has the values that represent its parts;
// parts_state.cc converts between them and the parts; adapter_loading.cc loads them.
#include <cstring>
#include <span>

#include "device/adapter.h"
#include "device/adapter_loading.h"
#include "device/describe.h"

namespace pvrdma::device {
namespace {

template <typename Saved>
void write(state::Writer& writer, state::RecordKind kind, Saved saved) {
  writer.begin(kind);
  describe(writer, saved);
  writer.end();
}

constexpr std::uint32_t kPort = 1;

}  // namespace

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
               region, region_defect, map_trouble, work, client, stream, arrival, stream_time,
               link_meanwhile] = *this;
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
