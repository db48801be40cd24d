// GidTable: the GIDs that the guest has bound on its port, by index. Reference 3.2 (CREATE_BIND), 7.1.
// Thread: shard-owned.
#pragma once

#include <optional>
#include <vector>

#include "verbs/ids.h"
#include "verbs/status.h"
#include "verbs/wire.h"

namespace pvrdma::verbs {

class GidTable {
 public:
  struct Entry {
    Gid gid;
    RoceVersion roce;
  };

  // `registry` is borrowed. The table reports each GID to it; the registry may refuse a GID that another port
  // holds.
  GidTable(std::uint32_t length, GidRegistry& registry) : entries_(length), registry_(registry) {}
  ~GidTable() { clear(); }

  // Replaces an older entry at `index`. kInvalid: `index` is beyond the table, or the GID is zero.
  // kAddressInUse: the switch refuses the GID.
  Outcome<> bind(std::uint32_t index, const Gid& gid, RoceVersion roce);
  // kNoSuchObject: nothing, or another GID, is bound there.
  Outcome<> unbind(std::uint32_t index, const Gid& gid);
  void clear();

  // Returns null if the index is out of range or unbound.
  const Entry* at(std::uint32_t index) const;
  const std::vector<std::optional<Entry>>& entries() const { return entries_; }

 private:
  bool bound_elsewhere(std::uint32_t except_index, const Gid& gid) const;

  std::vector<std::optional<Entry>> entries_;
  GidRegistry& registry_;
};

}  // namespace pvrdma::verbs
