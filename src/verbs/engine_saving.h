// Engine::Saving: writes an engine's state record by record, so that others can be served in between.
//
// The engine must not change meanwhile. Thread: shard-owned.
#pragma once

#include <cstdint>

#include "base/time.h"
#include "state/writer.h"
#include "verbs/engine.h"

namespace pvrdma::verbs {

class Engine::Saving {
 public:
  // `engine` is borrowed. Deadlines are saved as the time left from `now` on.
  Saving(const Engine& engine, Instant now) : engine_(engine), now_(now) {}

  // Writes the next record. False: all are written. If memory runs out (bad_alloc), the saving is over.
  [[nodiscard]] bool write_next(state::Writer& writer);

 private:
  // In the order of the stream.
  enum class Part : std::uint8_t { kTables, kPds, kMrSlots, kMrs, kCqs, kSrqs, kQps, kGids, kCounters, kEnd };

  // Writes the next record of part_. False: it has no more.
  bool write_part(state::Writer& writer);
  // Calls `save(slot)` for the slots from slot_ on, until it has written a record and returns true.
  template <typename Save>
  bool write_slot(std::uint32_t end, Save save);
  // For a part of one record.
  template <typename Save>
  bool write_once(Save save);

  const Engine& engine_;
  const Instant now_;
  Part part_ = Part::kTables;
  std::uint32_t slot_ = 0;  // of part_: the first one that has not been looked at
};

}  // namespace pvrdma::verbs
