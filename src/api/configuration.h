// Configuration: the cluster's configuration as a handler sees and edits it: the plane's, or the draft of a
// batch, whose edits are committed together (batch_routes.cc).
//
// Thread: one; borrows the plane and the call.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <utility>

#include "api/edit_report.h"
#include "api/router.h"
#include "base/result.h"
#include "control/plane/plane.h"

namespace pvrdma::api {

// A copy of the inventory that the edits of a batch change.
struct Draft {
  // What is known of users and groups, for each pair of names.
  using Owners = std::map<std::pair<std::string, std::string>, Result<void>>;

  control::Inventory& inventory;
  Owners& owners;
  bool rehearsed = false;  // the same edits were made before: what may be slow was looked at then
};

class Configuration {
 public:
  Configuration(control::Plane& plane, const Call& call)
      : plane_(plane), draft_(call.draft), client_(call.client) {}

  const std::string& host() const { return plane_.host(); }
  // Never null. That of a draft shows each later edit.
  std::shared_ptr<const control::Inventory> inventory() const {
    if (draft_ == nullptr) return plane_.inventory();
    return {std::shared_ptr<void>(), &draft_->inventory};
  }
  Result<void> edit(const control::Plane::Edit& edit) const {
    if (draft_ != nullptr) return edit(draft_->inventory);
    return edit_and_tell(plane_, client_, edit);
  }
  bool is_draft() const { return draft_ != nullptr; }
  // Looks for an owner with `find`, once for all edits of a batch.
  template <typename Find>
  Result<void> look_for_owner(const std::string& user, const std::string& group, const Find& find) const {
    const auto look = [&]() -> Result<void> {
      const auto found = find(user, group);
      return found ? Result<void>() : Failure(found.error());
    };
    if (draft_ == nullptr) return look();
    const auto known = draft_->owners.find({user, group});
    return known != draft_->owners.end()
               ? known->second
               : draft_->owners.emplace(std::pair(user, group), look()).first->second;
  }
  bool is_rehearsed() const { return draft_ != nullptr && draft_->rehearsed; }

 private:
  control::Plane& plane_;
  const Draft* const draft_;  // null: the edit is alone
  const std::string& client_;
};

}  // namespace pvrdma::api
