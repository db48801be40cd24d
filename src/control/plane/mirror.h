// Mirror: the store's contents as an Inventory. It follows the store's records and changes. It also keeps
// what an edit needs: the guard's stored value, and the keys of records that this version does not
// understand.
//
// Thread: one at a time.
#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "control/model/inventory.h"
#include "control/store/store.h"

namespace pvrdma::control {

class Mirror {
 public:
  // Both return one sentence for each record that was not understood. Such a record does not change the
  // inventory.
  std::vector<std::string> replace(const std::vector<KeyValue>& records);
  std::vector<std::string> change(const std::vector<Change>& changes);

  // The newest inventory. The copy is made on request, so that a burst of changes costs one copy.
  std::shared_ptr<const Inventory> inventory();

  std::uint64_t revision() const { return working_.revision; }
  const std::optional<std::string>& guard() const { return guard_; }
  const std::set<std::string>& unreadable() const { return unreadable_; }

 private:
  void take(const Change& change, std::vector<std::string>& troubles);

  Inventory working_;
  std::shared_ptr<const Inventory> shown_;  // null: working_ has changed since
  std::optional<std::string> guard_;
  std::set<std::string> unreadable_;
};

}  // namespace pvrdma::control
