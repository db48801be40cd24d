// Configuration: the cluster's configuration as a handler sees and edits it: the plane's, or the draft of a
// batch, whose edits are committed together (batch_routes.cc).
//
// Thread: one; borrows the plane and the draft.
#pragma once

#include <memory>
#include <string>

#include "base/result.h"
#include "control/plane/plane.h"

namespace pvrdma::api {

// A copy of the inventory that the edits of a batch change.
struct Draft {
  control::Inventory& inventory;
  bool rehearsed = false;  // the same edits were made before: what may be slow was looked at then
};

class Configuration {
 public:
  // `draft` is null for an edit that is alone.
  Configuration(control::Plane& plane, const Draft* draft) : plane_(plane), draft_(draft) {}

  const std::string& host() const { return plane_.host(); }
  // Never null. That of a draft shows each later edit.
  std::shared_ptr<const control::Inventory> inventory() const {
    if (draft_ == nullptr) return plane_.inventory();
    return {std::shared_ptr<void>(), &draft_->inventory};
  }
  Result<void> edit(const control::Plane::Edit& edit) const {
    return draft_ == nullptr ? plane_.edit(edit) : edit(draft_->inventory);
  }
  bool is_draft() const { return draft_ != nullptr; }
  bool is_rehearsed() const { return draft_ != nullptr && draft_->rehearsed; }

 private:
  control::Plane& plane_;
  const Draft* const draft_;
};

}  // namespace pvrdma::api
