// What a move does to an adapter's engine, without the way between two hosts: it is saved, destroyed, and
// another one of its bytes goes on in its place. Guests and peers must not notice. Thread: the world's.
#pragma once

#include "base/time.h"
#include "device/adapter.h"

namespace pvrdma::sim {

// Violation: it is not saved as it was loaded, or is refused. `lost`: whether what is under way is taken for
// lost, as it is when the wire is another one, too.
enum class UnderWayIs : bool { kKept, kLost };
void replace_engine(device::Adapter& adapter, UnderWayIs under_way, Instant now);

}  // namespace pvrdma::sim
