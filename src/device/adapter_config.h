// AdapterConfig: the configuration of an adapter, which determines what its guest is told (SavedIdentity).
//
// Thread: values.
#pragma once

#include <optional>
#include <string>

#include "base/result.h"
#include "device/saved.h"
#include "verbs/host_account.h"
#include "verbs/limits.h"
#include "vocabulary/budgets.h"
#include "vocabulary/doorbell_mode.h"
#include "vocabulary/ethernet.h"
#include "vocabulary/hardware_version.h"
#include "vocabulary/mac.h"
#include "vocabulary/profile.h"
#include "vocabulary/roce_version.h"

namespace pvrdma::device {

struct AdapterConfig {
  std::string name;
  Mac mac;
  HardwareVersion hardware_version = HardwareVersion::k14;
  RoceVersion roce = RoceVersion::kV2;  // see default_roce()
  Profile profile = Profile::kOpen;
  DoorbellMode doorbells = DoorbellMode::kTrapped;
  NetworkMtu mtu = kNetworkMtuDefault;
  std::optional<verbs::Limits> limits;  // replaces those of hardware version and profile, except for the MTU
  Budgets budgets = Budgets::none();    // the guest is told the lesser of limit and budget
  std::optional<verbs::Limits> told;    // what a continuing guest was told before; replaces all of the above
  verbs::HostAccount* host = nullptr;   // borrowed, outlives the adapter; null: no host-wide totals
};

// What the guest of such an adapter is told. Errors: a RoCE version or limits that the hardware version does
// not offer, or a doorbell mode that the host does not support.
Result<SavedIdentity> identity_of(const AdapterConfig& config);
// Sets in `config` what the guest was told, whatever was configured since.
void keep_to(const SavedIdentity& identity, AdapterConfig& config);

}  // namespace pvrdma::device
