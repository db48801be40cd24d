#include "moves/store_arbiter.h"

#include "control/model/edits.h"

namespace pvrdma::moves {

Result<void> StoreArbiter::begin(const motion::Motion& motion) {
  return plane_.edit([&motion](control::Inventory& inventory) {
    return control::edits::begin_motion(inventory, motion.vm, {motion.id, motion.to});
  });
}

Result<void> StoreArbiter::commit(const motion::Motion& motion) {
  return plane_.edit([&motion](control::Inventory& inventory) {
    return control::edits::commit_motion(inventory, motion.vm, {motion.id, motion.to});
  });
}

Result<void> StoreArbiter::end(const motion::Motion& motion) {
  return plane_.edit([&motion](control::Inventory& inventory) {
    return control::edits::end_motion(inventory, motion.vm, {motion.id, motion.to});
  });
}

Result<StoreArbiter::Verdict> StoreArbiter::look(const motion::Motion& motion) {
  const auto inventory = plane_.inventory();
  const auto vm = inventory->vms.find(motion.vm);
  if (vm == inventory->vms.end()) return Verdict::kStays;
  if (vm->second.motion == control::VmMotion{motion.id, motion.to}) return Verdict::kOpen;
  const bool came = !vm->second.motion && vm->second.host == motion.to && vm->second.arrived_by == motion.id;
  return came ? Verdict::kThere : Verdict::kStays;
}

Result<bool> StoreArbiter::source_is_gone(const motion::Motion& motion) {
  return plane_.store_state().connected && !plane_.inventory()->live_hosts.contains(motion.from);
}

}  // namespace pvrdma::moves
