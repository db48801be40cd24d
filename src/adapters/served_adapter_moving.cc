// An adapter's move to another shard of this host: what the adapter itself does (shard_placement.h).
#include <fmt/core.h>
#include <utility>

#include "adapters/served_adapter.h"
#include "base/check.h"
#include "guestmem/address_space.h"

namespace pvrdma::adapters {

// What these have of the adapter belongs to its shard, or to this object.
Result<void> ServedAdapter::check_may_leave() const {
  const auto wait = [this](std::string_view why) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} stays on its shard: {}: wait until that is over", port_.name(), why));
  };
  device::Adapter& adapter = seated_->adapter();
  if (successor_ != nullptr) return wait("another VMM is expected");
  if (adapter.is_stopped() || adapter.outlives_client() || home_ != device::Home::kThisHost)
    return is_being_moved();
  if (fault_ != nullptr) return has_faults();
  if (has_client() && !seated_->seat().established()) return wait("its VMM connects");
  if (tap_.is_read()) return wait("a capture is under way");
  if (adapter.memory().log_state() != guestmem::LogState::kOff)
    return wait("the pages that it writes are logged");
  return {};
}

Result<GivenBack> ServedAdapter::begin_to_leave(Instant now) {
  PVRDMA_CHECK(parts_.keeping != nullptr, "a host with several shards records what clients hand over");
  if (auto may = check_may_leave(); !may) return Failure(std::move(may).error());
  KeptAdapter kept = keep(
      device::Adapter::Objects::kSaved, [](KeptId) { return false; }, now);
  if (!kept.trouble.empty()) {
    return fail(ErrorKind::kConflict,
                fmt::format("adapter {} stays on its shard: {}", port_.name(), kept.trouble));
  }
  auto given = read_kept(std::move(kept.fds), std::move(kept.stream));
  if (!given) return given;
  is_moving_ = true;
  seated_->adapter().stop();
  seated_->suspend_client(true);
  watch_listener();
  return given;
}

// The guest's interrupts, which the adapter raises when it has been loaded, do no harm if it then goes on
// where it was.
Result<void> ServedAdapter::begin_to_come(const GivenBack& given) {
  seated_->suspend_client(true);
  if (given.record.has_client) {
    if (auto valid = check_record(given.record); !valid) return valid;
    if (auto taken = take_back_client(given); !taken) return taken;
    port_.set_link(seated_->adapter().link_is_up());
  }
  seated_->adapter().stop();
  return {};
}

void ServedAdapter::settle() {
  is_moving_ = false;
  port_.end_following();
  seated_->suspend_client(false);
  go_on();
  watch_listener();
  seated_->follow();
  follow_client();
}

}  // namespace pvrdma::adapters
