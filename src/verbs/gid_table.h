// GidTable: the GIDs the guest bound on its port, by index. Reference 3.2 (CREATE_BIND), 7.1. Thread:
// shard-owned.
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

  // `registry` is borrowed: it learns of each GID and may refuse one that another port holds.
  GidTable(std::uint32_t length, GidRegistry& registry) : entries_(length), registry_(registry) {}
  ~GidTable() { clear(); }

  // kInvalid: index beyond the table, or the zero GID. kAddressInUse: the switch refuses it. Replaces an
  // older entry.
  Outcome<> bind(std::uint32_t index, const Gid& gid, RoceVersion roce);
  // kNoSuchObject: nothing bound there, or another GID.
  Outcome<> unbind(std::uint32_t index, const Gid& gid);
  void clear();

  // Null when the index is out of range or unbound.
  const Entry* at(std::uint32_t index) const;
  const std::vector<std::optional<Entry>>& entries() const { return entries_; }

 private:
  bool bound_elsewhere(std::uint32_t except_index, const Gid& gid) const;

  std::vector<std::optional<Entry>> entries_;
  GidRegistry& registry_;
};

}  // namespace pvrdma::verbs
