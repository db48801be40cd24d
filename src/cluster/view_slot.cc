#include "cluster/view_slot.h"

#include <memory>
#include <new>
#include <utility>

#include "base/log.h"

namespace pvrdma::cluster {

ViewSlot::~ViewSlot() {
  delete waiting_.load();
}

void ViewSlot::put(ShardView view) {
  auto newest = std::make_unique<const ShardView>(std::move(view));
  const std::unique_ptr<const ShardView> replaced(waiting_.exchange(newest.release()));
  if (replaced == nullptr) refused_ = true;
  retry();
}

void ViewSlot::retry() {
  if (put_back_.exchange(false)) refused_ = true;
  if (refused_) refused_ = !loop_.post({[this] { take(); }, "taking a new view of the cluster"});
}

void ViewSlot::take() {
  std::unique_ptr<const ShardView> view(waiting_.exchange(nullptr));
  if (view == nullptr) return;
  try {
    apply_(*view);
  } catch (const std::bad_alloc&) {
    log::warn("a new view of the cluster is delayed: there is no memory for it now");
    const ShardView* none = nullptr;
    if (waiting_.compare_exchange_strong(none, view.get())) (void)view.release();
    put_back_ = true;
  }
}

}  // namespace pvrdma::cluster
