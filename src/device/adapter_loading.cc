// The adapter's loading (ADR 16).
#include "device/adapter_loading.h"

#include <algorithm>
#include <fmt/core.h>
#include <new>
#include <utility>
#include <vector>

#include "device/describe.h"
#include "device/differing.h"

namespace pvrdma::device {
namespace {

// Reads the record if it is of that kind, and skips an optional one. False: it was not read.
template <typename Saved>
bool read(state::Reader& reader, const state::Reader::Record& record, state::RecordKind kind, Saved& saved) {
  if (record.kind == kind) {
    describe(reader, saved);
    return true;
  }
  if (record.must_be_understood && record.kind.kind != kind.kind)
    reader.refuse("a record of the adapter is missing, or out of order");
  else
    reader.skip(record);
  return false;
}

bool holds_nothing(const SavedEventRings& rings) {
  return rings.pending_cqs.empty() && rings.held.empty();
}

constexpr const char* kEndsEarly = "it ends before the adapter's last record";

}  // namespace

Result<SavedIdentity> read_identity(state::Reader& reader) {
  SavedIdentity identity;
  bool was_read = false;
  while (!was_read && !reader.failed()) {
    if (const auto record = reader.next())
      was_read = read(reader, *record, kIdentityRecord, identity);
    else
      reader.refuse(kEndsEarly);
  }
  if (std::ranges::find(kHardwareVersions, identity.hardware_version) == kHardwareVersions.end())
    reader.refuse(fmt::format("no adapter has hardware version {}", number_of(identity.hardware_version)));
  if (reader.failed()) return Failure(reader.result().error());
  return identity;
}

Result<PciState> Adapter::load(state::Reader& reader, DoorbellPoller::Words words, Instant now) {
  Loading loading(*this, now);
  while (loading.read_next(reader)) {
  }
  return loading.finish(reader, words);
}

bool Adapter::Loading::read_next(state::Reader& reader) {
  refuse_if_used(reader);
  if (reader.failed()) return false;
  if (part_ == Part::kEngine) {
    if (!engine_) engine_.emplace(adapter_.engine_, now_);
    if (!engine_->read_next(reader)) part_ = Part::kEnd;
    return !reader.failed();
  }
  const auto record = reader.next();
  if (part_ == Part::kEnd) {
    if (record || !reader.unread().empty()) reader.refuse("it contains more than an adapter");
    return false;
  }
  try {
    if (record)
      read_part(reader, *record);
    else
      reader.refuse(kEndsEarly);
  } catch (const std::bad_alloc&) {
    reader.refuse(verbs::Engine::Loading::kNoMemory);
  }
  return !reader.failed();
}

void Adapter::Loading::refuse_if_used(state::Reader& reader) const {
  if (adapter_.failed() || adapter_.state_ != AdapterState::kDetached)
    reader.refuse("the adapter that loads it is in use");
}

void Adapter::Loading::read_part(state::Reader& reader, const state::Reader::Record& record) {
  switch (part_) {
    case Part::kIdentity:
      read_part(reader, record, kIdentityRecord, identity_);
      if (part_ == Part::kIdentity || reader.failed()) return;
      if (const auto other = differing(adapter_.identity_, identity_)) reader.refuse(*other);
      return;
    case Part::kPci:
      return read_part(reader, record, kPciRecord, pci_);
    case Part::kRegisters:
      return read_part(reader, record, kRegistersRecord, registers_);
    case Part::kInterrupts:
      return read_part(reader, record, kInterruptsRecord, interrupts_);
    case Part::kDriver:
      return read_part(reader, record, kDriverRecord, driver_);
    case Part::kEventRings:
      return read_part(reader, record, kEventRingsRecord, rings_);
    case Part::kDoorbells:
      return read_part(reader, record, kDoorbellsRecord, doorbells_);
    case Part::kRates:
      return read_part(reader, record, kRatesRecord, rates_);
    case Part::kCounters:
      return read_part(reader, record, kDeviceCountersRecord, counters_);
    case Part::kEngine:
    case Part::kEnd:
      return;
  }
}

template <typename Saved>
void Adapter::Loading::read_part(state::Reader& reader, const state::Reader::Record& record,
                                 state::RecordKind kind, Saved& saved) {
  if (read(reader, record, kind, saved)) part_ = static_cast<Part>(static_cast<std::uint8_t>(part_) + 1);
}

Result<PciState> Adapter::Loading::finish(state::Reader& reader, DoorbellPoller::Words words) {
  refuse_if_used(reader);
  if (reader.failed()) return Failure(reader.result().error());
  Adapter& to = adapter_;
  std::optional<SharedRegion> region;
  try {
    region = restore_rings(reader);
    check_whole(reader);
    engine_->finish(reader);
  } catch (const std::bad_alloc&) {
    reader.refuse(verbs::Engine::Loading::kNoMemory);
  }
  if (reader.failed()) {
    to.rings_.detach();
    return Failure(reader.result().error());
  }
  to.registers_.restore(registers_);
  to.interrupts_.restore(interrupts_);
  to.commands_.set_link(driver_.link_up);
  to.poller_.restore(doorbells_, words);
  to.rates_.restore(rates_, now_);
  to.counters_ = counters_;
  to.region_ = std::move(region);
  to.state_ = driver_.state;
  to.work_.on(LifeEvent::kLoaded);
  return pci_;
}

// The driver's region with its rings attached. Empty without a driver.
std::optional<SharedRegion> Adapter::Loading::restore_rings(state::Reader& reader) {
  std::optional<SharedRegion> region;
  if (!has_region(driver_.state)) {
    if (!holds_nothing(rings_)) reader.refuse("events without a driver");
    return region;
  }
  region = restore(driver_.region, page_frames_of(adapter_.config_.hardware_version));
  if (!region) {
    reader.refuse("the shared region is invalid");
  } else if (!adapter_.rings_.restore(rings_, *region, now_)) {
    reader.refuse("the event rings' values are invalid");
  }
  return region;
}

// Checks that device and engine agree, now that all is read.
void Adapter::Loading::check_whole(state::Reader& reader) const {
  if (driver_.state != AdapterState::kActive && !engine_->is_empty())
    reader.refuse("objects without an active driver");
  std::vector<verbs::UarIndex> pages;
  for (const SavedDoorbellPage& page : doorbells_.pages) pages.push_back(page.uar);
  const bool pages_ok =
      adapter_.identity_.rules.mapped_doorbells ? pages == engine_->contexts() : pages.empty();
  if (!pages_ok) reader.refuse("its doorbell pages do not match its contexts");
}

}  // namespace pvrdma::device
