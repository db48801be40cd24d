// A QEMU's migration, observed and controlled through its monitor.
//
// Thread and errors: as for Monitor.
#pragma once

#include <cstdint>
#include <set>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "vmm/monitor.h"

namespace pvrdma::vmm {

// "major.minor.micro"
Result<std::string> version_of(Monitor& monitor);

// "running", "paused", "inmigrate", "postmigrate", ...
Result<std::string> run_state(Monitor& monitor);

struct MigrationStatus {
  std::string status =
      "none";       // "active", "pre-switchover", "completed", "failed", ...; none: there was no migration
  std::string why;  // why it failed, in QEMU's words
  std::uint64_t ram_bytes = 0;  // of the guest, as far as QEMU reports it
  std::uint64_t remaining_bytes = 0;
  // The speed of the stream: the last measurement, or the mean if that is higher (a stream that had little to
  // send in the last 100 ms is not slow). 0: not measured yet.
  std::uint64_t bytes_per_s = 0;
};
Result<MigrationStatus> migration_status(Monitor& monitor);

// Whether the migration is over, or there was none.
bool has_ended(std::string_view status);

// Capabilities of a migration, by QEMU's names.
inline constexpr const char* kPauseBeforeSwitchover = "pause-before-switchover";
inline constexpr const char* kAutoConverge = "auto-converge";

// The capabilities that are on.
Result<std::set<std::string>> migration_capabilities(Monitor& monitor);
// Error: EREMOTEIO (QEMU lacks the capability, or is migrating).
Result<void> set_migration_capability(Monitor& monitor, const char* name, bool on);

// Parameters of a migration.
struct MigrationSettings {
  std::uint64_t bytes_per_s_max = 0;  // 0: no bound
  std::uint64_t downtime_ms = 0;      // how long the VM may be stopped
};
Result<MigrationSettings> migration_settings(Monitor& monitor);
Result<void> set_migration_settings(Monitor& monitor, const MigrationSettings& settings);

// Cancels a running migration and waits until it has ended. ETIMEDOUT: not before `until`.
Result<void> cancel_migration(Monitor& monitor, Instant until);

}  // namespace pvrdma::vmm
