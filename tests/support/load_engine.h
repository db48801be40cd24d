// Loads a whole saved engine at once. Thread: one.
#pragma once

#include "base/result.h"
#include "base/time.h"
#include "state/reader.h"
#include "verbs/engine_loading.h"

namespace pvrdma::test {

inline Result<> load_engine(verbs::Engine& engine, state::Reader& reader, Instant now) {
  verbs::Engine::Loading loading(engine, now);
  while (loading.read_next(reader)) {
  }
  loading.finish(reader);
  return reader.result();
}

}  // namespace pvrdma::test
