// Engine::Loading: loads an engine's state record by record, so that others can be served in between.
//
// The records make objects of a new Impl, which takes the place of the engine's at the end. So the engine
// stays as it is until finish(). Nothing is read from guest memory, and memory may be mapped and unmapped in
// between. Thread: shard-owned.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/time.h"
#include "state/reader.h"
#include "verbs/engine.h"
#include "verbs/saved.h"

namespace pvrdma::verbs {

class Engine::Loading {
 public:
  static constexpr const char* kNoMemory = "out of memory";  // as a std::string it takes no memory

  // `engine` is borrowed. It is new, or was reset, and it stays without objects until finish(). Deadlines
  // begin at `now`.
  Loading(Engine& engine, Instant now);
  // What was loaded and is not used is destroyed in the engine's next turns, or before its next load.
  ~Loading();
  Loading(const Loading&) = delete;
  Loading& operator=(const Loading&) = delete;

  // Reads the next record, or first makes some room for it. False: the engine's last record was read, or the
  // state is refused.
  [[nodiscard]] bool read_next(state::Reader& reader);

  // What was loaded; only after the last record. is_empty(): no object and no GID.
  bool is_empty() const;
  std::vector<UarIndex> contexts() const;

  // Binds the GIDs and turns the engine into the saved one. The state is refused if a value is out of its
  // range, a budget is used up, or another adapter has one of the GIDs; the engine is then unchanged, and the
  // reader has the reason. Nothing is sent before the next turn. Unanswered requests go out again when their
  // time limits end, or at once on on_path_restored().
  void finish(state::Reader& reader);

 private:
  bool read_record(state::Reader& reader);
  const char* keep(const SavedGid& saved);

  Engine& engine_;
  const Instant now_;
  std::unique_ptr<Impl> fresh_;  // null before the first record; after finish() the engine's old one
  Counters counters_;
  std::vector<SavedGid> gids_;
  state::RecordKind last_{};
  std::uint32_t once_ = 0;  // records of kinds of which there is one each
  bool is_whole_ = false;
};

}  // namespace pvrdma::verbs
