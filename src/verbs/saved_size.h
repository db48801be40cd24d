// How large a saved engine can be (ADR 16): the bound of what another host may send as one. Thread: any.
#pragma once

#include <cstdint>

#include "verbs/limits.h"

namespace pvrdma::verbs {

// Bytes of the records of an engine within `limits` whose MRs and rings name `pages` pages, no two of which
// are neighbours, and whose QPs have all the work under way that they can have. UINT64_MAX: there is no
// bound.
std::uint64_t saved_bytes_max(const Limits& limits, std::uint64_t pages);

}  // namespace pvrdma::verbs
