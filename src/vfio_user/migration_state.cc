#include "vfio_user/migration_state.h"

#include <cerrno>

namespace pvrdma::vfio_user {
namespace {

constexpr int kMostArcs = 3;  // PRE_COPY to RESUMING and back

}  // namespace

std::optional<MigrationState> next_on_way(MigrationState from, MigrationState to) {
  using enum MigrationState;
  if (from == to || from == kError || to == kError) return std::nullopt;
  switch (from) {
    case kRunning:
      return to == kPreCopy ? kPreCopy : kStop;
    case kStop:
      return to == kPreCopy ? kRunning : to;
    case kPreCopy:
      return to == kStopCopy ? kStopCopy : kRunning;
    case kStopCopy:
      if (to == kPreCopy) return std::nullopt;
      return kStop;
    case kResuming:
      return kStop;
    case kError:
      break;
  }
  return std::nullopt;
}

int MigrationStates::change(MigrationState wanted, bool pre_copy, const TakeArc& take_arc) {
  if (wanted == current_) return wanted == MigrationState::kError ? EINVAL : 0;
  if (wanted == MigrationState::kPreCopy && !pre_copy) return EINVAL;
  for (int arcs = 0; arcs < kMostArcs && current_ != wanted; ++arcs) {
    const auto next = next_on_way(current_, wanted);
    if (!next) return EINVAL;
    const StateChange change = take_arc(*next);
    if (change.error != 0) {
      if (change.device_is_lost) current_ = MigrationState::kError;
      return change.error;
    }
    current_ = *next;
  }
  return 0;
}

}  // namespace pvrdma::vfio_user
