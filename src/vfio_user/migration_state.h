// MigrationStates: in which state of a migration a device is, and how it gets to another.
//
// Sans I/O. A change goes by the arcs that the protocol has, over the shortest way whose states between are
// none in which state is saved (STOP_COPY, PRE_COPY); the device is asked for each arc. A change that fails
// on its way stays where it got to, or is in ERROR, which only a reset leaves.
//
// Thread: value, owned by its session.
// Source: QEMU docs/interop/vfio-user.rst, VFIO_DEVICE_FEATURE_MIG_DEVICE_STATE; <linux/vfio.h>, enum
// vfio_device_mig_state.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>

#include "vfio_user/handler.h"

namespace pvrdma::vfio_user {

// The next state on the way `from` one `to` another, which is `to` itself if there is an arc. None: no way,
// as from and to ERROR, from STOP_COPY to PRE_COPY, and to where the device already is.
std::optional<MigrationState> next_on_way(MigrationState from, MigrationState to);

class MigrationStates {
 public:
  // Takes the device over one arc.
  using TakeArc = std::function<StateChange(MigrationState next)>;

  MigrationState current() const { return current_; }

  // To where it is already: 0, nothing is asked. Otherwise 0, the device's errno, or EINVAL: there is no way,
  // or `pre_copy` is needed and false.
  int change(MigrationState wanted, bool pre_copy, const TakeArc& take_arc);

  // The device was reset.
  void reset() { current_ = MigrationState::kRunning; }

 private:
  MigrationState current_ = MigrationState::kRunning;
};

}  // namespace pvrdma::vfio_user
