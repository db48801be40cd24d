// On which shards of this host the peers of an adapter are, and how much it exchanges with them.
//
// Thread: shard-owned.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "adapters/served_adapter.h"

namespace pvrdma::adapters {

// Of one page of an adapter's QPs: what they have sent and received since they exist.
struct Exchange {
  std::vector<std::uint64_t> bytes;   // by shard of the peer; those of other hosts are left out
  std::optional<std::uint32_t> next;  // where the next page begins; empty: this is the last
};

// `first`: 0, then `next` of the page before. `shards`: how many this host has.
Exchange exchange_of(const ServedAdapter& adapter, std::uint32_t first, std::size_t shards);

}  // namespace pvrdma::adapters
