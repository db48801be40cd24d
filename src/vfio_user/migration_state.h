// MigrationStates: the state of a device's migration, and the way from one state to another.
//
// Sans I/O. A change of state follows the protocol's arcs. It takes the shortest way that does not pass
// through a state in which state is saved (STOP_COPY, PRE_COPY). The device is asked for each arc. After an
// arc fails, the device stays in the state that it had reached, or is in ERROR, which only a reset leaves.
//
// Thread: value, owned by its session. Source: QEMU docs/interop/vfio-user.rst,
// VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE; <linux/vfio.h>, enum vfio_device_mig_state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "vfio_user/handler.h"

namespace pvrdma::vfio_user {

// The next state on the way from `from` to `to`; it is `to` itself if there is an arc. Empty if there is no
// way: from and to ERROR, from STOP_COPY to PRE_COPY, and if both states are the same.
std::optional<MigrationState> next_on_way(MigrationState from, MigrationState to);

class MigrationStates {
 public:
  // Takes the device over one arc.
  using TakeArc = std::function<StateChange(MigrationState next)>;

  MigrationState current() const { return current_; }

  // Takes the device to `wanted`, or does nothing if it is there. Returns 0, the device's errno, or EINVAL if
  // there is no way or if the way needs `pre_copy` and it is false.
  int change(MigrationState wanted, bool pre_copy, const TakeArc& take_arc);

  // The device was reset.
  void reset() { current_ = MigrationState::kRunning; }

 private:
  MigrationState current_ = MigrationState::kRunning;
};

}  // namespace pvrdma::vfio_user
