// Adapter::Loading: loads a saved adapter record by record, so that others can be served in between.
//
// The adapter stays as it is until finish(), and is refused if a driver uses it meanwhile. Thread:
// shard-owned.
#pragma once

#include <cstdint>
#include <optional>

#include "base/time.h"
#include "device/adapter.h"
#include "device/counters.h"
#include "device/pci_state.h"
#include "device/saved.h"
#include "state/reader.h"
#include "verbs/engine_loading.h"

namespace pvrdma::device {

class Adapter::Loading {
 public:
  // `adapter` is borrowed. Saved times begin at `now`.
  Loading(Adapter& adapter, Instant now) : adapter_(adapter), now_(now) {}

  // Reads the next record. False: the stream has ended, or the state is refused.
  [[nodiscard]] bool read_next(state::Reader& reader);

  // Turns the adapter into the saved one, and returns its PCI state. If the state is refused (also here), the
  // adapter is unchanged. Call it once, when read_next() has returned false.
  Result<PciState> finish(state::Reader& reader, DoorbellPoller::Words words);

 private:
  // In the order of the stream.
  enum class Part : std::uint8_t {
    kIdentity,
    kPci,
    kRegisters,
    kInterrupts,
    kDriver,
    kEventRings,
    kDoorbells,
    kRates,
    kCounters,
    kEngine,
    kEnd
  };

  void refuse_if_used(state::Reader& reader) const;
  void read_part(state::Reader& reader, const state::Reader::Record& record);
  template <typename Saved>
  void read_part(state::Reader& reader, const state::Reader::Record& record, state::RecordKind kind,
                 Saved& saved);
  std::optional<SharedRegion> restore_rings(state::Reader& reader);
  void check_whole(state::Reader& reader) const;

  Adapter& adapter_;
  const Instant now_;
  Part part_ = Part::kIdentity;
  SavedIdentity identity_;
  PciState pci_;
  SavedRegisters registers_;
  SavedInterrupts interrupts_;
  SavedDriver driver_;
  SavedEventRings rings_;
  SavedDoorbells doorbells_;
  SavedRates rates_;
  Counters counters_;
  std::optional<verbs::Engine::Loading> engine_;  // from its first record on
};

// A state that the client writes in pieces.
struct Adapter::Arrival {
  state::Reader reader;
  Loading loading;
  bool has_more = true;  // records to read; false also if the state is refused
};

}  // namespace pvrdma::device
