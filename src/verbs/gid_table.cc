#include "verbs/gid_table.h"

#include <utility>

namespace pvrdma::verbs {

Outcome<> GidTable::bind(std::uint32_t index, const Gid& gid, RoceVersion roce) {
  if (index >= entries_.size() || gid.is_zero()) return refuse(CommandError::kInvalid);
  std::optional<Entry>& entry = entries_[index];
  if (entry && entry->gid == gid) {
    entry->roce = roce;
    return {};
  }
  // Bind the new GID first: if it is refused, the old one stays.
  if (!bound_elsewhere(index, gid) && !registry_.bind_gid(gid)) return refuse(CommandError::kAddressInUse);
  const std::optional<Entry> old = std::exchange(entry, Entry{gid, roce});
  if (old && !bound_elsewhere(index, old->gid)) registry_.unbind_gid(old->gid);
  return {};
}

Outcome<> GidTable::unbind(std::uint32_t index, const Gid& gid) {
  const Entry* entry = at(index);
  if (entry == nullptr || entry->gid != gid) return refuse(CommandError::kNoSuchObject);
  // Copy it: `gid` may refer to the entry's own GID.
  const Gid gone = entry->gid;
  entries_[index].reset();
  if (!bound_elsewhere(index, gone)) registry_.unbind_gid(gone);
  return {};
}

void GidTable::clear() {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    const std::optional<Entry> old = std::exchange(entries_[index], std::nullopt);
    if (old && !bound_elsewhere(index, old->gid)) registry_.unbind_gid(old->gid);
  }
}

const GidTable::Entry* GidTable::at(std::uint32_t index) const {
  return index < entries_.size() && entries_[index] ? &*entries_[index] : nullptr;
}

bool GidTable::bound_elsewhere(std::uint32_t except_index, const Gid& gid) const {
  for (std::uint32_t index = 0; index < entries_.size(); ++index) {
    if (index != except_index && entries_[index] && entries_[index]->gid == gid) return true;
  }
  return false;
}

}  // namespace pvrdma::verbs
