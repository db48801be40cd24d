// The largest size of a saved engine (ADR 16). It bounds what another host may send as one. Thread: any.
#pragma once

#include <cstdint>

#include "verbs/limits.h"

namespace pvrdma::verbs {

// The bytes of all records of an engine in the worst case that `limits` allow: its MRs and rings name `pages`
// pages, no two of them adjacent, and its QPs have as much work in progress as they can. UINT64_MAX: there is
// no bound. Cheap, whatever the limits.
std::uint64_t saved_bytes_max(const Limits& limits, std::uint64_t pages);

}  // namespace pvrdma::verbs
