#include "sim/replacement.h"

#include "sim/operation.h"
#include "state/reader.h"
#include "state/writer.h"

namespace pvrdma::sim {
namespace {

std::vector<std::byte> save(const verbs::Engine& engine, Instant now) {
  state::Writer writer;
  engine.save(writer, now);
  return writer.finish();
}

}  // namespace

void replace_engine(device::Adapter& adapter, UnderWayIs under_way, Instant now) {
  verbs::Engine& engine = adapter.engine();
  const std::vector<std::byte> bytes = save(engine, now);
  engine.reset();
  state::Reader reader(bytes);
  const Result<> loaded = engine.load(reader, now);
  require(loaded.has_value(), "an engine's own state: " + (loaded ? "" : loaded.error().message));
  require(!reader.next() && reader.result(), "there is more in the stream than the engine");
  require(save(engine, now) == bytes, "a loaded engine is not the one that was saved");
  if (under_way == UnderWayIs::kLost) engine.on_path_restored([](const verbs::Gid&) { return true; }, now);
}

}  // namespace pvrdma::sim
