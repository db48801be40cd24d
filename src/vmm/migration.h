// A QEMU's migration, as its monitor shows and leads it.
//
// Thread and errors: as Monitor's.
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
      "none";       // "active", "pre-switchover", "completed", "failed", ...; none: there was none
  std::string why;  // it failed, in QEMU's words
  std::uint64_t ram_bytes = 0;  // of the guest, as far as QEMU tells
  std::uint64_t remaining_bytes = 0;
  std::uint64_t bytes_per_s = 0;  // as measured last; 0: not yet
};
Result<MigrationStatus> migration_status(Monitor& monitor);

// It is over, or there was none.
bool has_ended(std::string_view status);

// Capabilities of it, as QEMU names them.
inline constexpr const char* kPauseBeforeSwitchover = "pause-before-switchover";
inline constexpr const char* kAutoConverge = "auto-converge";

// Those that are on.
Result<std::set<std::string>> migration_capabilities(Monitor& monitor);
// Errors: EREMOTEIO: this QEMU does not have it, or it migrates.
Result<void> set_migration_capability(Monitor& monitor, const char* name, bool on);

// How QEMU migrates.
struct MigrationSettings {
  std::uint64_t bytes_per_s_max = 0;  // 0: no bound
  std::uint64_t downtime_ms = 0;      // the VM may stand for so long
};
Result<MigrationSettings> migration_settings(Monitor& monitor);
Result<void> set_migration_settings(Monitor& monitor, const MigrationSettings& settings);

// Ends what is under way, and waits for that. ETIMEDOUT: `until` came first.
Result<void> cancel_migration(Monitor& monitor, Instant until);

}  // namespace pvrdma::vmm
