#include "cluster/view_slot.h"

#include <memory>
#include <utility>

namespace pvrdma::cluster {

ViewSlot::~ViewSlot() {
  delete waiting_.load();
}

void ViewSlot::put(HostView view) {
  auto newest = std::make_unique<const HostView>(std::move(view));
  const std::unique_ptr<const HostView> replaced(waiting_.exchange(newest.release()));
  if (replaced == nullptr) refused_ = true;
  retry();
}

void ViewSlot::retry() {
  if (refused_) refused_ = !loop_.post({[this] { take(); }, "taking a new view of the cluster"});
}

void ViewSlot::take() {
  const std::unique_ptr<const HostView> view(waiting_.exchange(nullptr));
  if (view != nullptr) apply_(*view);
}

}  // namespace pvrdma::cluster
